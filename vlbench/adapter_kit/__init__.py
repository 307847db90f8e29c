"""What several adapters need; an adapter imports the modules that it uses.

`hugging_face` opens a model of transformers and its tokenizer, `library_models` those of timm,
open_clip and torchvision; `bert_ports` are networks of BERT's layers that no library has, and
`one_stream_ports` adapters of those that read texts and regions as one sequence. `text` reads texts
into tokens with spans and counts, `images` turns pictures into pixels, `regions` makes batches of
ready-made regions. `attention` returns the attention from text to the parts of an image, `layers`
and `text_layers` what single layers give. `weights` reads files of weights and fills modules with
them, and runs nothing of a file; `vector_files` reads word vectors, `class_names` the names of
outputs. `matching_heads` returns log-odds. `servers` asks models behind an address, `answers` keeps
what they answered, and `vlm` asks models that generate.

No module imports transformers or torchvision when it is imported: a run reads every adapter's file
before it loads a model, and those libraries take seconds.
"""
