"""Reading what others wrote: JSON against a schema, each error with its key."""
