"""Tests of the adapter contract that run on any adapter."""

from vlbench.check.findings import Finding, check_adapter

__all__ = ["Finding", "check_adapter"]
