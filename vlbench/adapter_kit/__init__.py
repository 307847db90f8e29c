"""What several adapters need; an adapter imports the modules that it uses.

`hugging_face` opens a model of transformers and its tokenizer; `bert_ports` networks of BERT's
layers that it has no class for, and `one_stream_ports` are adapters of those that read texts and
regions as one sequence. `text` reads texts into tokens with spans and counts. `regions`
makes batches of ready-made regions and describes their boxes. `images` turns pictures into pixels,
`image_processors` as transformers' own do. `attention` returns the attention from text to image.
For generative models, `prompts` puts a text into a question about an image, in the format of
`chat_prompts` or `prefix_lm`, and `asked_images` has texts about one image run by `runs`,
`shared_prefix` or `prefix_lm`, as `vlm_families` says for each type. `image_tokens` says where in a
picture its tokens lie, and `square_views` makes tokens of pixels. `weights` reads files of weights
and fills modules with them, by `vlbench.data.formats`, which runs nothing of a file.
`vector_files` reads word vectors. `torchvision_models` opens a model of torchvision. `hub_files`
fetches files of the hub, and `library_models` refuses names that a library does not have.

No module imports transformers or torchvision when it is imported: a run reads every adapter's file
before it loads a model, and those libraries take seconds.
"""
