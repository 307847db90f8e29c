"""Drawing for boards and probes: layouts of figures, looks of models, sheets of images, HTML."""
