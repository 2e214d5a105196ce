"""Studies side by side: differences layer by layer, over training seeds, along a training run."""
