"""Building blocks for adapters; an adapter imports only the modules that it uses.

`hugging_face` opens a model of transformers and its tokenizer, `library_models` models of timm,
open_clip and torchvision. `bert_ports` builds networks of BERT layers that are in no library, and
`one_stream_ports` adapters of networks that read texts and regions as one sequence. `text` turns
texts into tokens with spans and counts, `images` turns pictures into pixels, `regions` batches
ready-made regions. `attention` returns the attention from text to the parts of an image, `layers`
and `text_layers` the outputs of single layers. `weights` reads weight files and loads them into
modules, and executes nothing in a file; `vector_files` reads word vectors, `class_names` the names
of outputs. `matching_heads` returns log-odds. `servers` sends requests to models behind an address,
`answers` caches their answers, and `vlm` prompts models that generate.

No module imports transformers or torchvision when it is imported: a run reads every adapter's file
before it loads a model, and those libraries take seconds.
"""
