"""Readers of untrusted files, of data and of weights, and their guarantees.

They hold for every file, also for malicious files:

- No code in a file runs. Pickles are read by one unpickler (`pickles`), which finds only harmless
  substitutes for classes and functions, and torch's pickles by torch, only for weights
  (`torch_files`); arrays of Python objects are refused; of TorchScript archives only OpenAI's are
  loaded, identified by their digests.
- Data take memory proportional to their file's size. The declared sizes, such as opcodes of pickles
  and shapes of arrays, are compared with the content before anything is allocated. A compressed
  file unpacks to at most a multiple of its size (`archives`). The memory of weights is left to
  torch and safetensors.
- A file refers to nothing else: no name in an archive becomes a path, and nothing is written.
- If a file is damaged, cut short or of another format, the error names it, the expected format, and
  the reason (DataError, WeightsError). There is no traceback, and nothing replaces missing content.

`tests/fuzz` tests every loader with mutants of small files. `vlbench.system.files` defines the
largest sizes of files that are opened.
"""
