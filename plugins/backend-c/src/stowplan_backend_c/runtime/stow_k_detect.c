/* Detections: boxes decoded around anchors, of which the best stay that overlap no better one.
 *
 * Candidates lie in a heap, so that the best comes out first and most are never decoded; each is compared with the boxes
 * chosen before it. The result holds, behind what it is for, the scores and the heap, so no other memory is needed. */
#include "stow_element.h"
#include "stow_function.h"

#if STOW_WITH_DETECTIONS

#define STOW_CORNERS 4u

typedef struct stow_detect {
    const int32_t *p;
    stow_rows encodings, scores;
    const uint8_t *anchors;
    size_t boxes, box_classes, classes, background; /* background: classes before the first that counts, 0 or 1 */
    size_t most, slots;                             /* detections that are chosen at most; places of each */
    float *found, *found_classes, *found_scores, *count;
    float *keys;     /* the score by which each box is put in order */
    uint32_t *heap;  /* the boxes that are candidates still, the best first */
    size_t waiting;  /* how many they are */
    float *of_class; /* the boxes chosen of one class */
} stow_detect;

static void stow_read_detect(stow_detect *op, const stow_call *call)
{
    const int32_t *p = call->params;
    const stow_rows result = stow_result(call);
    op->p = p;
    op->encodings = stow_operand(call, 0);
    op->scores = stow_operand(call, 1);
    op->anchors = stow_constant(call, p[STOW_DETECTIONS_ANCHORS]);
    op->boxes = (size_t)p[STOW_DETECTIONS_BOXES];
    op->box_classes = (size_t)p[STOW_DETECTIONS_BOX_CLASSES];
    op->classes = (size_t)p[STOW_DETECTIONS_CLASSES];
    op->background = op->box_classes - op->classes;
    op->most = (size_t)p[STOW_DETECTIONS_MAX_DETECTIONS];
    op->slots = (size_t)p[STOW_DETECTIONS_CLASSES_PER_DETECTION];
    const size_t places = op->most * op->slots;
    op->found = (float *)(void *)stow_row(&result, 0);
    op->found_classes = op->found + STOW_CORNERS * places;
    op->found_scores = op->found_classes + places;
    op->count = op->found_scores + places;
    op->keys = op->count + 1;
    op->heap = (uint32_t *)(void *)(op->keys + op->boxes);
    op->of_class = op->keys + 2 * op->boxes;
    op->waiting = 0;
    memset(op->found, 0, result.row_bytes);
}

static size_t stow_real_bytes(const int32_t *quantization)
{
    return quantization[0] == STOW_DTYPE_FLOAT32 ? sizeof(float) : 1;
}

/* A float32 or int8 as a real number; a quantization is three parameters: dtype, scale, zero point. */
static float stow_real(const uint8_t *from, const int32_t *quantization)
{
    if (quantization[0] == STOW_DTYPE_FLOAT32) {
        float value;
        memcpy(&value, from, sizeof value);
        return value;
    }
    return (float)(*(const int8_t *)from - quantization[2]) * stow_float(quantization[1]);
}

static float stow_real_at(const stow_rows *rows, size_t index, const int32_t *quantization)
{
    return stow_real(stow_element(rows, index, stow_real_bytes(quantization)), quantization);
}

static float stow_anchor_at(const stow_detect *op, size_t index)
{
    const int32_t *quantization = op->p + STOW_DETECTIONS_ANCHOR_DTYPE;
    return stow_real(op->anchors + index * stow_real_bytes(quantization), quantization);
}

/* exp(x) to a few units in the last place of a double: 2^n times the Taylor polynomial of what remains. What becomes too
 * large for a float is infinite, what becomes too small is 0. */
static double stow_exp_double(double x)
{
    static const float divisors[] = {13.0f, 12.0f, 11.0f, 10.0f, 9.0f, 8.0f, 7.0f, 6.0f, 5.0f, 4.0f, 3.0f, 2.0f, 1.0f};
    if (!(x < 709.0)) {
        return x != x ? x : (double)STOW_INFINITY;
    }
    if (x < -709.0) {
        return 0.0;
    }
    const int32_t n = (int32_t)(x * 1.4426950408889634 + (x < 0.0 ? -0.5 : 0.5));
    const double rest = (x - (double)n * 0.693147180369123816490) - (double)n * 1.90821492927058770002e-10;
    double sum = 1.0;
    for (uint32_t i = 0; i < sizeof divisors / sizeof divisors[0]; i++) {
        sum = 1.0 + sum * rest / (double)divisors[i];
    }
    const uint64_t bits = (uint64_t)(1023 + n) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* The nearest float; what is beyond all floats is infinite, as conversions leave it open. */
static float stow_float_of_double(double value)
{
    if (value > 3.4028235677973362e38 || value < -3.4028235677973362e38) {
        return value > 0.0 ? STOW_INFINITY : -STOW_INFINITY;
    }
    return (float)value;
}

/* The two edges of a box along one axis, 0 for y, 1 for x. */
static void stow_decode_edges(const stow_detect *op, size_t box, uint32_t axis, float *corners)
{
    const int32_t *quantization = op->p + STOW_DETECTIONS_BOX_DTYPE;
    const size_t first = box * (size_t)op->p[STOW_DETECTIONS_BOX_SIZE];
    const double origin = (double)stow_anchor_at(op, STOW_CORNERS * box + axis);
    const double extent = (double)stow_anchor_at(op, STOW_CORNERS * box + axis + 2u);
    const double place = (double)stow_real_at(&op->encodings, first + axis, quantization);
    const double size = (double)stow_real_at(&op->encodings, first + axis + 2u, quantization);
    const double place_scale = (double)stow_float(op->p[STOW_DETECTIONS_Y_SCALE + axis]);
    const double size_scale = (double)stow_float(op->p[STOW_DETECTIONS_H_SCALE + axis]);
    const float centre = stow_float_of_double(place / place_scale * extent + origin);
    const float half = stow_float_of_double(0.5 * stow_exp_double(size / size_scale) * extent);
    corners[axis] = centre - half;
    corners[axis + 2u] = centre + half;
}

/* Top, left, bottom, right. */
static void stow_decode_box(const stow_detect *op, size_t box, float *corners)
{
    stow_decode_edges(op, box, 0, corners);
    stow_decode_edges(op, box, 1, corners);
}

/* How far two boxes reach into each other along one axis. */
static float stow_shared_extent(const float *a, const float *b, uint32_t axis)
{
    const float low = a[axis] < b[axis] ? b[axis] : a[axis];
    const float high = b[axis + 2u] < a[axis + 2u] ? b[axis + 2u] : a[axis + 2u];
    return high - low < 0.0f ? 0.0f : high - low;
}

/* Whether two boxes share more than a part of what they cover together; a box without area shares nothing. */
static int stow_overlaps(const float *a, const float *b, float limit)
{
    const float area_a = (a[2] - a[0]) * (a[3] - a[1]);
    const float area_b = (b[2] - b[0]) * (b[3] - b[1]);
    if (area_a <= 0.0f || area_b <= 0.0f) {
        return 0;
    }
    const float shared = stow_shared_extent(a, b, 0) * stow_shared_extent(a, b, 1);
    return shared / (area_a + area_b - shared) > limit;
}

/* Whether a box overlaps one of those chosen before, which lie `step` floats apart. */
static int stow_is_covered(const stow_detect *op, const float *chosen, size_t count, size_t step, const float *corners)
{
    const float limit = stow_float(op->p[STOW_DETECTIONS_OVERLAP_THRESHOLD]);
    for (size_t i = 0; i < count; i++) {
        if (stow_overlaps(chosen + i * step, corners, limit)) {
            return 1;
        }
    }
    return 0;
}

/* Whether one candidate comes before another: a better score, or the same with a lower number. */
static int stow_comes_first(const stow_detect *op, uint32_t a, uint32_t b)
{
    return op->keys[a] > op->keys[b] || (op->keys[a] == op->keys[b] && a < b);
}

/* Let the candidate at a place of the heap sink below all that come before it. */
static void stow_sink(stow_detect *op, size_t place)
{
    const uint32_t box = op->heap[place];
    for (size_t below = 2 * place + 1; below < op->waiting; below = 2 * place + 1) {
        if (below + 1 < op->waiting && stow_comes_first(op, op->heap[below + 1], op->heap[below])) {
            below++;
        }
        if (stow_comes_first(op, box, op->heap[below])) {
            break;
        }
        op->heap[place] = op->heap[below];
        place = below;
    }
    op->heap[place] = box;
}

/* Make candidates of the boxes whose keys reach the threshold. */
static void stow_gather_candidates(stow_detect *op)
{
    const float threshold = stow_float(op->p[STOW_DETECTIONS_SCORE_THRESHOLD]);
    op->waiting = 0;
    for (size_t box = 0; box < op->boxes; box++) {
        if (op->keys[box] >= threshold) {
            op->heap[op->waiting] = (uint32_t)box;
            op->waiting++;
        }
    }
    for (size_t place = op->waiting / 2; place > 0; place--) {
        stow_sink(op, place - 1);
    }
}

/* Take the best candidate away. */
static uint32_t stow_next_candidate(stow_detect *op)
{
    const uint32_t box = op->heap[0];
    op->waiting--;
    op->heap[0] = op->heap[op->waiting];
    if (op->waiting > 0) {
        stow_sink(op, 0);
    }
    return box;
}

static float stow_score_at(const stow_detect *op, size_t box, size_t class_index)
{
    const size_t index = box * op->box_classes + op->background + class_index;
    return stow_real_at(&op->scores, index, op->p + STOW_DETECTIONS_SCORE_DTYPE);
}

/* The class of a box that comes next after one with this score, by falling scores; `classes` when there is none. */
static size_t stow_next_class(const stow_detect *op, size_t box, size_t after, float after_score)
{
    size_t best = op->classes;
    float best_score = 0.0f;
    for (size_t i = 0; i < op->classes; i++) {
        const float score = stow_score_at(op, box, i);
        const int open = after == op->classes ? score == score : score < after_score || (score == after_score && i > after);
        if (open && (best == op->classes || score > best_score)) {
            best = i;
            best_score = score;
        }
    }
    return best;
}

static void stow_put(const stow_detect *op, size_t place, const float *corners, size_t class_index, float score)
{
    memcpy(op->found + STOW_CORNERS * place, corners, STOW_CORNERS * sizeof *corners);
    op->found_classes[place] = (float)class_index;
    op->found_scores[place] = score;
}

/* Put a box with its best classes into the places of the detection with this number. */
static void stow_put_classes(const stow_detect *op, size_t number, size_t box, const float *corners)
{
    size_t class_index = op->classes;
    float score = 0.0f;
    for (size_t slot = 0; slot < op->slots; slot++) {
        class_index = stow_next_class(op, box, class_index, score);
        if (class_index == op->classes) {
            break;
        }
        score = stow_score_at(op, box, class_index);
        stow_put(op, number * op->slots + slot, corners, class_index, score);
    }
}

/* All classes together: each box counts by its best one. */
static size_t stow_detect_together(stow_detect *op)
{
    for (size_t box = 0; box < op->boxes; box++) {
        const size_t best = stow_next_class(op, box, op->classes, 0.0f);
        op->keys[box] = best < op->classes ? stow_score_at(op, box, best) : STOW_NOT_A_NUMBER;
    }
    stow_gather_candidates(op);
    size_t chosen = 0;
    while (op->waiting > 0 && chosen < op->most) {
        float corners[STOW_CORNERS];
        const uint32_t box = stow_next_candidate(op);
        stow_decode_box(op, box, corners);
        if (!stow_is_covered(op, op->found, chosen, STOW_CORNERS * op->slots, corners)) {
            stow_put_classes(op, chosen, box, corners);
            chosen++;
        }
    }
    return chosen;
}

/* Put a detection behind those of at least its score, where the last of `count` falls out if all places are taken;
 * return how many there are then. */
static size_t stow_insert(const stow_detect *op, size_t count, const float *corners, size_t class_index, float score)
{
    size_t place = count < op->most ? count : op->most - 1;
    for (; place > 0 && op->found_scores[place - 1] < score; place--) {
        const float *before = op->found + STOW_CORNERS * (place - 1);
        memcpy(op->found + STOW_CORNERS * place, before, STOW_CORNERS * sizeof *before);
        op->found_classes[place] = op->found_classes[place - 1];
        op->found_scores[place] = op->found_scores[place - 1];
    }
    stow_put(op, place, corners, class_index, score);
    return count < op->most ? count + 1 : count;
}

/* One class by itself, added to the `count` best of those before. */
static size_t stow_detect_class(stow_detect *op, size_t class_index, size_t count)
{
    const size_t limit = (size_t)op->p[STOW_DETECTIONS_DETECTIONS_PER_CLASS];
    for (size_t box = 0; box < op->boxes; box++) {
        op->keys[box] = stow_score_at(op, box, class_index);
    }
    stow_gather_candidates(op);
    for (size_t chosen = 0; op->waiting > 0 && chosen < limit;) {
        const uint32_t box = stow_next_candidate(op);
        if (count == op->most && !(op->keys[box] > op->found_scores[count - 1])) {
            break; /* nor would any after it find a place */
        }
        float *corners = op->of_class + STOW_CORNERS * chosen;
        stow_decode_box(op, box, corners);
        if (!stow_is_covered(op, op->of_class, chosen, STOW_CORNERS, corners)) {
            count = stow_insert(op, count, corners, class_index, op->keys[box]);
            chosen++;
        }
    }
    return count;
}

STOW_API void stow_detections_run(const stow_call *call)
{
    stow_detect op;
    stow_read_detect(&op, call);
    size_t count = 0;
    if (call->params[STOW_DETECTIONS_PER_CLASS] != 0) {
        for (size_t i = 0; i < op.classes; i++) {
            count = stow_detect_class(&op, i, count);
        }
    } else {
        count = stow_detect_together(&op);
    }
    *op.count = (float)count;
}

static int stow_is_real(const int32_t *quantization)
{
    return quantization[0] == STOW_DTYPE_FLOAT32 ||
           (quantization[0] == STOW_DTYPE_INT8 && stow_is_int8(quantization[2]));
}

static int stow_are_reals(const stow_facts *facts, uint32_t operand, int64_t count, const int32_t *quantization)
{
    return stow_is_real(quantization) &&
           stow_elements(stow_operand_form(facts, operand), (uint32_t)stow_real_bytes(quantization)) == count;
}

/* Bytes of the result: what is found, and what the kernel works in. */
static int64_t stow_detections_bytes(const int32_t *p)
{
    const int64_t places = stow_size(p[STOW_DETECTIONS_MAX_DETECTIONS], p[STOW_DETECTIONS_CLASSES_PER_DETECTION]);
    const int64_t boxes = p[STOW_DETECTIONS_BOXES], limit = p[STOW_DETECTIONS_DETECTIONS_PER_CLASS];
    const int64_t of_class = p[STOW_DETECTIONS_PER_CLASS] == 0 ? 0 : boxes < limit ? boxes : limit;
    return stow_size(stow_size(6, places) + 1 + 2 * boxes + STOW_CORNERS * of_class, 4);
}

STOW_API int stow_detections_check(const stow_facts *facts)
{
    const int32_t *p = facts->params;
    if (!stow_is_plain(facts, 2, STOW_DETECTIONS_PARAMS) ||
        !stow_all_at_least(facts, STOW_DETECTIONS_BOXES, STOW_DETECTIONS_PER_CLASS, 1) ||
        p[STOW_DETECTIONS_BOX_SIZE] < (int32_t)STOW_CORNERS || p[STOW_DETECTIONS_CLASSES] > p[STOW_DETECTIONS_BOX_CLASSES]) {
        return 0;
    }
    const int64_t boxes = p[STOW_DETECTIONS_BOXES];
    const stow_form out = stow_result_form(facts);
    return out.rows == 1 && stow_detections_bytes(p) == out.row_bytes &&
           stow_are_reals(facts, 0, stow_size(boxes, p[STOW_DETECTIONS_BOX_SIZE]), p + STOW_DETECTIONS_BOX_DTYPE) &&
           stow_are_reals(facts, 1, stow_size(boxes, p[STOW_DETECTIONS_BOX_CLASSES]), p + STOW_DETECTIONS_SCORE_DTYPE) &&
           stow_is_real(p + STOW_DETECTIONS_ANCHOR_DTYPE) &&
           stow_has_bytes(facts, p[STOW_DETECTIONS_ANCHORS],
                          stow_size(boxes, (int64_t)(STOW_CORNERS * stow_real_bytes(p + STOW_DETECTIONS_ANCHOR_DTYPE))));
}

#endif
