/* bench_extension.c - an extension module in C with the limited API, to compare with ctypes.
 *
 * `bench.py` measures it and names the command that compiles it. The package does not use it.
 */
#define Py_LIMITED_API 0x030A0000 /* PyUnicode_AsUTF8AndSize is part of it from 3.10 on */
#include <Python.h>

/* Stands for mpprof_marker. */
__attribute__((noinline)) static void stand_in(const char *name) {
    __asm__ volatile("" : : "r"(name) : "memory");
}

static PyObject *marker(PyObject *module, PyObject *name) {
    Py_ssize_t bytes;
    const char *text = PyUnicode_AsUTF8AndSize(name, &bytes);
    (void)module;
    if (text == NULL) {
        return NULL;
    }
    stand_in(text);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"marker", marker, METH_O, "Calls a function that does nothing."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "bench_extension", .m_size = 0, .m_methods = methods,
};

PyMODINIT_FUNC PyInit_bench_extension(void) { return PyModule_Create(&module); }
