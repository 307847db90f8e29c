"""The adapter contract, tried on any adapter."""

from vlbench.check.findings import Finding, check_adapter

__all__ = ["Finding", "check_adapter"]
