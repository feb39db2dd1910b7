/* `CompiledModel.run` in one call from Python: inputs in, LiteRT's run without the GIL, outputs out.
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
    PyObject *(*function)(PyObject *, PyObject *const *, Py_ssize_t, PyObject *);
    int flags;
    const char *doc;
} PyMethodDef;

extern PyObject PyBytes_Type, _Py_NoneStruct, _Py_TrueStruct;
extern void Py_IncRef(PyObject *), Py_DecRef(PyObject *), PyErr_Clear(void);
extern PyObject *PyObject_Type(PyObject *), *PyObject_GetAttr(PyObject *, PyObject *);
extern int PyObject_GetBuffer(PyObject *, Py_buffer *, int), PyBytes_AsStringAndSize(PyObject *, char **, Py_ssize_t *);
extern void PyBuffer_Release(Py_buffer *);
extern Py_ssize_t PyList_Size(PyObject *);
extern PyObject *PyList_GetItem(PyObject *, Py_ssize_t), *PyList_New(Py_ssize_t), *PyLong_FromLong(long);
extern int PyList_SetItem(PyObject *, Py_ssize_t, PyObject *);
extern PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t);
extern void *PyEval_SaveThread(void), PyEval_RestoreThread(void *);
extern PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
extern int PyCapsule_SetContext(PyObject *, void *),  PyCapsule_IsValid(PyObject *, const char *);
extern void *PyCapsule_GetPointer(PyObject *, const char *), *PyCapsule_GetContext(PyObject *);
extern PyObject *PyObject_CallObject(PyObject *, PyObject *), *PyObject_Call(PyObject *, PyObject *, PyObject *);
extern PyObject *PyDescr_NewMethod(PyObject *, PyMethodDef *), *PyUnicode_InternFromString(const char *);
extern PyObject *PyTuple_New(Py_ssize_t), *PyTuple_GetItem(PyObject *, Py_ssize_t), *PyDict_New(void);
extern Py_ssize_t PyTuple_Size(PyObject *);
extern int PyTuple_SetItem(PyObject *, Py_ssize_t, PyObject *), PyDict_SetItem(PyObject *, PyObject *, PyObject *);

enum {
    METHOD_FASTCALL = 0x80,
    METHOD_KEYWORDS = 0x02,
    BUFFER_SHAPED = 0x38, /* shape, contiguous as C has it */
    BUFFER_PLAIN = 0x3C,  /* and the format */
};

/* An input or output: its memory, and what a caller's array has to be. The same fields as in quick.py.
 * `array_type` and `dtype` are numpy's, or NULL: an array of exactly these needs no look at its format, which numpy
 * spells anew each time it is asked, a twentieth of a small run. */
typedef struct {
    void *memory;
    int64_t size_bytes;
    const int64_t *shape;
    int32_t rank, code;
    PyObject *array_type, *dtype;
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

static PyObject *dtype_name, *quick_name, *long_way_name, *fail_name;

static int is_array(const Py_buffer *view, const slot_t *slot)
{
    if (view->len != slot->size_bytes || view->ndim != slot->rank) return 0;
    for (int axis = 0; axis < view->ndim; axis++)
        if (view->shape[axis] != slot->shape[axis]) return 0;
    return 1;
}

static int has_code(const Py_buffer *view, const slot_t *slot)
{
    return view->format != NULL && view->format[0] == (char)slot->code && view->format[1] == '\0';
}

/* 1 for an array of numpy's whose dtype object is the port's. */
static int is_known(PyObject *given, PyObject *type, const slot_t *slot)
{
    if (slot->array_type == NULL || type != slot->array_type) return 0;
    PyObject *dtype = PyObject_GetAttr(given, dtype_name);
    if (dtype == NULL) {
        PyErr_Clear();
        return 0;
    }
    Py_DecRef(dtype);
    return dtype == slot->dtype;
}

/* Copies an input to its memory; 0 for one that is neither bytes of its size nor an array of its type and shape. */
static int take(PyObject *given, const slot_t *slot)
{
    PyObject *type = PyObject_Type(given);
    int raw = type == &PyBytes_Type, known = !raw && is_known(given, type, slot);
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
    if (PyObject_GetBuffer(given, &view, known ? BUFFER_SHAPED : BUFFER_PLAIN) != 0) {
        PyErr_Clear();
        return 0;
    }
    int fits = is_array(&view, slot) && (known || has_code(&view, slot));
    if (fits) memcpy(slot->memory, view.buf, (size_t)view.len);
    PyBuffer_Release(&view);
    return fits;
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

/* What came of the short way: outputs or an exception; nothing ran; or LiteRT's status, and the caller is still in. */
typedef enum { DONE, NOT_RUN, FAILED } outcome_t;

static outcome_t short_way(const context_t *c, PyObject *inputs, PyObject **results, int *status)
{
    *results = NULL;
    if (*c->guarded) return NOT_RUN;
    int in = enter(c);
    if (in <= 0) return in < 0 ? DONE : NOT_RUN;
    if (!take_all(inputs, c)) return leave(c) ? DONE : NOT_RUN;
    *c->stop = 0;
    void *thread = PyEval_SaveThread();
    *status = c->run(c->model, c->signature, c->inputs, c->takes, c->outputs, c->gives);
    PyEval_RestoreThread(thread);
    if (*status != 0) return FAILED;
    *results = outputs_of(c);
    if (leave(c) != 0 && *results != NULL) {
        Py_DecRef(*results);
        *results = NULL;
    }
    return DONE;
}

/* Calls a method of the model's with these arguments; the last ones are named. */
static PyObject *call(PyObject *model, PyObject *name, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
    PyObject *method = PyObject_GetAttr(model, name), *results = NULL;
    PyObject *positional = PyTuple_New(count), *keywords = PyDict_New();
    int fine = method != NULL && positional != NULL && keywords != NULL;
    for (Py_ssize_t i = 0; fine && i < count; i++) {
        Py_IncRef(given[i]);
        fine = PyTuple_SetItem(positional, i, given[i]) == 0;
    }
    for (Py_ssize_t i = 0; fine && i < named; i++)
        fine = PyDict_SetItem(keywords, PyTuple_GetItem(names, i), given[count + i]) == 0;
    if (fine) results = PyObject_Call(method, positional, keywords);
    PyObject *const mine[] = {method, positional, keywords};
    for (int i = 0; i < 3; i++)
        if (mine[i] != NULL) Py_DecRef(mine[i]);
    return results;
}

static PyObject *run(PyObject *model, PyObject *const *given, Py_ssize_t count, PyObject *names)
{
    PyObject *results = NULL, *capsule = count == 1 && names == NULL ? PyObject_GetAttr(model, quick_name) : NULL;
    outcome_t outcome = NOT_RUN;
    int status = 0;
    if (capsule != NULL) {
        if (PyCapsule_IsValid(capsule, NULL))
            outcome = short_way(PyCapsule_GetPointer(capsule, NULL), given[0], &results, &status);
        Py_DecRef(capsule);
    } else {
        PyErr_Clear();
    }
    if (outcome == DONE) return results;
    if (outcome == NOT_RUN) return call(model, long_way_name, given, count, names);
    PyObject *code = PyLong_FromLong(status);
    results = code == NULL ? NULL : call(model, fail_name, &code, 1, NULL);
    if (code != NULL) Py_DecRef(code);
    return results;
}

/* Returns a method `run` for a type whose instances have `_quick`, a capsule or None, `_run`, the long way, and `_fail`,
 * which leaves the model and raises; NULL with an exception. */
PyObject *quick_method(PyObject *type)
{
    static PyMethodDef definition = {
        "run", run, METHOD_FASTCALL | METHOD_KEYWORDS,
        "run($self, inputs, outputs=None, *, timeout=None)\n--\n\nRun once, as CompiledModel._run says."};
    dtype_name = PyUnicode_InternFromString("dtype");
    quick_name = PyUnicode_InternFromString("_quick");
    long_way_name = PyUnicode_InternFromString("_run");
    fail_name = PyUnicode_InternFromString("_fail");
    if (dtype_name == NULL || quick_name == NULL || long_way_name == NULL || fail_name == NULL) return NULL;
    return PyDescr_NewMethod(type, &definition);
}

static void release(PyObject *capsule)
{
    Py_DecRef(PyCapsule_GetContext(capsule));
}

/* Returns a capsule for `_quick`; `kept` lives as long as it does. */
PyObject *quick_capsule(void *context, PyObject *kept)
{
    PyObject *capsule = PyCapsule_New(context, NULL, release);
    if (capsule == NULL) return NULL;
    Py_IncRef(kept);
    PyCapsule_SetContext(capsule, kept); /* cannot fail: the capsule is one */
    return capsule;
}
