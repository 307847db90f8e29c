"""The site of these pages: `make docs`."""

import os
import sys
from pathlib import Path

import vlbench

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

project = "vlbench"
author = "The vlbench maintainers"
release = vlbench.__version__
extensions = ["myst_nb", "site_pages", "sphinx.ext.napoleon"]
smartquotes = False  # --option and ... are meant as they stand
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = f"vlbench {release}"
html_static_path = ["_static"]
html_js_files = ["readable.js"]
html_css_files = ["tables.css"]
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
html_use_index = False
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"

myst_enable_extensions = ["attrs_inline"]
myst_heading_anchors = 4

# `make docs` sets "auto", which runs the notebooks. Their commands are those of this environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
nb_execution_mode = "off"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_execution_in_temp = True  # what a notebook writes is gone after the build
