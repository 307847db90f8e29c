"""Papers' numbers and findings beside what boards hold."""
