"""The functions in Python are those of the header for C."""

import os
import re
import unittest

import fake_library  # noqa: F401 (finds the package)

from multiprocess_profiler._library import FUNCTIONS

HEADER = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "../../../profiler-agent/include/profiler.h"
)


def declared(header):
    """The number of the arguments of each function."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
    found = re.findall(r"mpprof_(\w+)\(([^()]*)\);", text)
    count = {"void": 0}
    return {name: count.get(words.strip(), words.count(",") + 1) for name, words in found}


@unittest.skipUnless(os.path.exists(HEADER), "the sources of the library are not here")
class Header(unittest.TestCase):
    def test_each_function_takes_as_many_arguments_as_the_header_declares(self):
        with open(HEADER, encoding="utf-8") as file:
            functions = declared(file.read())
        for name, (_, arguments) in FUNCTIONS.items():
            self.assertEqual(len(arguments), functions[name], name)


if __name__ == "__main__":
    unittest.main()
