"""Readers of strangers' files, of data and of weights, and what is promised of such files.

Whoever made a file: vlbench, a library, somebody on the web, or somebody who means harm.

- Nothing in it runs. Pickles are read by one unpickler (`pickles`), which finds no class and no
  function but harmless substitutes, and those of torch by torch, for weights alone (`torch_files`);
  arrays of Python objects are refused; of TorchScript only OpenAI's archives are loaded, by their
  digests.
- Data take memory of the order of their file's size. What a file announces is compared with what it
  holds before anything is allocated: opcodes of pickles, shapes of arrays. A compressed file
  unpacks to a multiple of its size at most (`archives`). How much memory weights take is torch's
  and safetensors' matter.
- It leads nowhere else: no name in an archive becomes a path, and nothing is written.
- Where it is damaged, cut short or of another format, the error names it, what it should be, and
  why it is not (DataError, WeightsError); no traceback, and no substitute for what is missing.

`tests/fuzz` holds every loader to this with mutants of small files. The sizes that files may have
before they are opened are in `vlbench.files`.
"""
