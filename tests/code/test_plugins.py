import pickle
import subprocess
import sys

import pytest
from sources import write

from vlbench.code.plugins import file_in, folder_of, load_file


def source(folder, **files):
    for name, text in files.items():
        write(folder / f"{name}.py", text)
    return folder


def test_a_file_is_executed_once_and_sys_path_stays(tmp_path):
    before = list(sys.path)
    file = write(tmp_path / "adapter.py", "class Net: pass\n")
    assert load_file(file) is load_file(file)
    assert sys.path == before


def test_a_file_imports_what_lies_beside_it(tmp_path):
    source(tmp_path, adapter="import network\nwidth = network.WIDTH\n", network="WIDTH = 7\n")
    assert load_file(tmp_path / "adapter.py").width == 7


@pytest.mark.parametrize(
    "statement",
    [
        "from network import WIDTH as width",
        "import network as net; width = net.WIDTH",
        "from .network import WIDTH as width",
        "from . import network; width = network.WIDTH",
        "import layers.sizes; width = layers.sizes.WIDTH",
        "from layers import sizes; width = sizes.WIDTH",
        "import layers.sizes as sizes; width = sizes.WIDTH",
    ],
)
def test_every_form_of_import_finds_files_and_packages_beside_it(tmp_path, statement):
    source(tmp_path, adapter=statement + "\n", network="WIDTH = 7\n")
    write(tmp_path / "layers" / "sizes.py", "import network\nWIDTH = network.WIDTH\n")
    write(tmp_path / "layers" / "__init__.py", "")
    assert load_file(tmp_path / "adapter.py").width == 7


def test_an_import_inside_a_function_finds_what_lies_beside_the_file(tmp_path):
    text = "def width():\n    import network\n    return network.WIDTH\n"
    source(tmp_path, adapter=text, network="WIDTH = 7\n")
    assert load_file(tmp_path / "adapter.py").width() == 7


def test_two_sources_have_files_of_one_name_each(tmp_path):
    for name in ("one", "two"):
        source(
            tmp_path / name,
            adapter="import network\nname = network.NAME\n",
            network=f"NAME = '{name}'\n",
        )
    names = [load_file(tmp_path / name / "adapter.py").name for name in ("one", "two")]
    assert names == ["one", "two"]


def test_an_installed_library_comes_before_a_file_of_its_name(tmp_path):
    source(tmp_path, numpy="import numpy\npi = numpy.pi\n")
    assert load_file(tmp_path / "numpy.py").pi == pytest.approx(3.14159, abs=1e-5)


def test_a_module_that_is_nowhere_is_named_as_ever(tmp_path):
    source(tmp_path, adapter="import nowhere_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere_at_all'"):
        load_file(tmp_path / "adapter.py")


def test_an_error_in_a_file_beside_it_is_that_files_error(tmp_path):
    source(tmp_path, adapter="import network\n", network="import nowhere_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="No module named 'nowhere_at_all'"):
        load_file(tmp_path / "adapter.py")


def test_what_a_file_defines_is_found_by_another_process(tmp_path):
    source(tmp_path, adapter="from network import Net\n", network="class Net:\n    width = 7\n")
    made = pickle.dumps(load_file(tmp_path / "adapter.py").Net())
    code = f"import pickle; print(pickle.loads({made!r}).width)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "7\n"


def test_a_file_whose_name_has_dots_loads(tmp_path):
    file = write(tmp_path / "my.first-adapter.py", "width = 7\n")
    assert load_file(file).width == 7


def test_a_file_that_fails_can_be_loaded_once_it_is_mended(tmp_path):
    file = write(tmp_path / "adapter.py", "width = 7 +\n")
    with pytest.raises(SyntaxError):
        load_file(file)
    write(file, "width = 7\n")
    assert load_file(file).width == 7


def test_the_folder_of_a_loaded_module_is_known_and_of_others_it_is_not(tmp_path):
    module = load_file(write(tmp_path / "adapter.py", ""))
    assert folder_of(module.__name__) == tmp_path.resolve()
    assert folder_of("vlbench.schema") is None
    assert folder_of("vlbench.code.plugins.nothing") is None


def test_a_module_is_a_file_or_a_package_with_an_init(tmp_path):
    source(tmp_path, network="")
    write(tmp_path / "layers" / "__init__.py", "")
    (tmp_path / "empty").mkdir()
    assert file_in(tmp_path, ["network"]) == tmp_path / "network.py"
    assert file_in(tmp_path, ["layers"]) == tmp_path / "layers" / "__init__.py"
    assert file_in(tmp_path, ["empty"]) is None
