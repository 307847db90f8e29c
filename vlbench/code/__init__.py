"""Identity of code: plug-ins, functions and adapters, with digests of the code they reach."""
