"""Which code is this: of plug-ins, functions and adapters, with digests of what they reach."""
