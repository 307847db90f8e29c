"""Names resolved once into jobs. Nothing here has side effects."""
