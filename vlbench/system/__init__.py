"""The machine: files, digests of files, the cache's folder, the hub, threads, the terminal."""
