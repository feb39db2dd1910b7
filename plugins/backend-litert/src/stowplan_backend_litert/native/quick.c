/* One run of a CPU model in one call from Python: inputs in, LiteRT's run without the GIL, outputs out.
 *
 * A run of a small model takes four microseconds; called piece by piece through ctypes as much again is spent around it.
 * What is used of Python is its stable ABI, declared here, so that no headers of it need to be installed.
 * Anything but plain inputs is left to the long way, which also has the words for what is wrong with them.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct _object PyObject;
typedef ptrdiff_t Py_ssize_t;
typedef struct {
    void *buf;
    PyObject *obj;
    Py_ssize_t len, itemsize;
    int readonly, ndim;
    char *format;
    Py_ssize_t *shape, *strides, *suboffsets;
    void *internal;
} Py_buffer;
typedef struct {
    const char *name;
    PyObject *(*function)(PyObject *, PyObject *const *, Py_ssize_t);
    int flags;
    const char *doc;
} PyMethodDef;

extern PyObject PyBytes_Type, _Py_NoneStruct, _Py_TrueStruct;
extern void Py_IncRef(PyObject *), Py_DecRef(PyObject *), PyErr_Clear(void);
extern PyObject *PyObject_Type(PyObject *);
extern int PyObject_GetBuffer(PyObject *, Py_buffer *, int), PyBytes_AsStringAndSize(PyObject *, char **, Py_ssize_t *);
extern void PyBuffer_Release(Py_buffer *);
extern Py_ssize_t PyList_Size(PyObject *);
extern PyObject *PyList_GetItem(PyObject *, Py_ssize_t), *PyList_New(Py_ssize_t), *PyLong_FromLong(long);
extern int PyList_SetItem(PyObject *, Py_ssize_t, PyObject *);
extern PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t);
extern void *PyEval_SaveThread(void), PyEval_RestoreThread(void *);
extern PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
extern PyObject *PyObject_CallObject(PyObject *, PyObject *);
extern void *PyCapsule_GetPointer(PyObject *, const char *);
extern PyObject *PyCFunction_NewEx(PyMethodDef *, PyObject *, PyObject *);

enum { METHOD_FASTCALL = 0x80, BUFFER_PLAIN = 0x3C /* format, shape, contiguous as C has it */ };

/* An input or output: its memory, and what a caller's array has to be. The same fields as in quick.py. */
typedef struct {
    void *memory;
    int64_t size_bytes;
    const int64_t *shape;
    int32_t rank, code;
} slot_t;

typedef struct {
    int (*run)(void *model, size_t signature, size_t inputs, void *takes, size_t outputs, void *gives);
    void *model;
    size_t signature, inputs;
    void *takes;
    size_t outputs;
    void *gives;
    volatile char *stop;
    const slot_t *in, *out;
    const char *guarded;                     /* not 0: who calls has to be asked, which the long way does */
    PyObject *acquire, *at_once, *release;   /* of the lock that lets one caller in; `acquire(*at_once)` never waits */
} context_t;

static int is_array(const Py_buffer *view, const slot_t *slot)
{
    if (view->len != slot->size_bytes || view->ndim != slot->rank || view->format == NULL ||
        view->format[0] != (char)slot->code || view->format[1] != '\0')
        return 0;
    for (int axis = 0; axis < view->ndim; axis++)
        if (view->shape[axis] != slot->shape[axis]) return 0;
    return 1;
}

/* Copies an input to its memory; 0 for one that is neither bytes of its size nor an array of its type and shape. */
static int take(PyObject *given, const slot_t *slot)
{
    PyObject *type = PyObject_Type(given);
    int raw = type == &PyBytes_Type;
    Py_DecRef(type);
    if (raw) {
        char *data;
        Py_ssize_t size;
        if (PyBytes_AsStringAndSize(given, &data, &size) != 0) {
            PyErr_Clear();
            return 0;
        }
        if (size != slot->size_bytes) return 0;
        memcpy(slot->memory, data, (size_t)size);
        return 1;
    }
    Py_buffer view;
    if (PyObject_GetBuffer(given, &view, BUFFER_PLAIN) != 0) {
        PyErr_Clear();
        return 0;
    }
    int fits = is_array(&view, slot);
    if (fits) memcpy(slot->memory, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return fits;
}

static PyObject *none(void)
{
    Py_IncRef(&_Py_NoneStruct);
    return &_Py_NoneStruct;
}

static PyObject *outputs_of(const context_t *c)
{
    PyObject *results = PyList_New((Py_ssize_t)c->outputs);
    for (size_t i = 0; results != NULL && i < c->outputs; i++) {
        PyObject *data = PyBytes_FromStringAndSize(c->out[i].memory, (Py_ssize_t)c->out[i].size_bytes);
        if (data == NULL || PyList_SetItem(results, (Py_ssize_t)i, data) != 0) {
            Py_DecRef(results);
            return NULL;
        }
    }
    return results;
}

static int take_all(PyObject *list, const context_t *c)
{
    Py_ssize_t inputs = PyList_Size(list);
    if (inputs < 0) PyErr_Clear();
    if (inputs != (Py_ssize_t)c->inputs) return 0;
    for (Py_ssize_t i = 0; i < inputs; i++) {
        PyObject *item = PyList_GetItem(list, i);
        if (item == NULL) { /* an earlier item's buffer made the list shorter */
            PyErr_Clear();
            return 0;
        }
        Py_IncRef(item);
        int taken = take(item, &c->in[i]);
        Py_DecRef(item);
        if (!taken) return 0;
    }
    return 1;
}

/* 1 when the caller is in, 0 when somebody else is, -1 with an exception. */
static int enter(const context_t *c)
{
    PyObject *answer = PyObject_CallObject(c->acquire, c->at_once);
    if (answer == NULL) return -1;
    int in = answer == &_Py_TrueStruct;
    Py_DecRef(answer);
    return in;
}

static int leave(const context_t *c)
{
    PyObject *answer = PyObject_CallObject(c->release, NULL);
    if (answer == NULL) return -1;
    Py_DecRef(answer);
    return 0;
}

/* Takes a list of inputs. Returns the list of outputs; None where nothing ran; LiteRT's status where the run failed,
 * and then the caller is still in and has to leave. */
static PyObject *quick(PyObject *self, PyObject *const *given, Py_ssize_t count)
{
    const context_t *c = PyCapsule_GetPointer(self, NULL);
    if (c == NULL) return NULL;
    if (count != 1 || *c->guarded) return none();
    int in = enter(c);
    if (in <= 0) return in < 0 ? NULL : none();
    if (!take_all(given[0], c)) return leave(c) ? NULL : none();
    *c->stop = 0;
    void *thread = PyEval_SaveThread();
    int status = c->run(c->model, c->signature, c->inputs, c->takes, c->outputs, c->gives);
    PyEval_RestoreThread(thread);
    if (status != 0) return PyLong_FromLong(status);
    PyObject *results = outputs_of(c);
    if (leave(c) != 0) {
        if (results != NULL) Py_DecRef(results);
        return NULL;
    }
    return results;
}

/* Returns the Python function that runs a model; the caller keeps the context for as long. */
PyObject *quick_function(void *context)
{
    static PyMethodDef definition = {"quick", quick, METHOD_FASTCALL, NULL};
    PyObject *self = PyCapsule_New(context, NULL, NULL);
    if (self == NULL) return NULL;
    PyObject *function = PyCFunction_NewEx(&definition, self, NULL);
    Py_DecRef(self);
    return function;
}
