"""Tests of the adapter contract that run on any adapter."""

from vlbench.check.findings import PromiseCheck, check_adapter

__all__ = ["PromiseCheck", "check_adapter"]
