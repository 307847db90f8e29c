"""Drawing, for boards and for probes: layouts of figures, looks of models, sheets of images."""
