/* PQ-trees in arrays, rewritten as a whole by every change: those of a packing have a few dozen boxes. */
#include "pq.h"

#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { NONE, SOME, ALL };

static const uint64_t HASH_BASE = 0x9e3779b97f4a7c15u;

typedef struct writer {
    pq_desk *desk;
    const pq_node *tree;
    pq_node *out;
    int32_t count;
} writer;

int pq_desk_new(pq_desk *desk, int32_t boxes)
{
    size_t room = PQ_ROOM(boxes);
    desk->share = calloc(room, sizeof *desk->share);
    desk->list = calloc(room, sizeof *desk->list);
    desk->lowest = calloc(room, sizeof *desk->lowest);
    desk->listed = 0;
    return desk->share && desk->list && desk->lowest;
}

void pq_desk_free(pq_desk *desk)
{
    free(desk->share), free(desk->list), free(desk->lowest);
}

/* The nodes below a node are walked from child to child: first is the next entry, another follows each subtree. */
static int32_t end_of(const pq_node *tree, int32_t node)
{
    return node + tree[node].length;
}

static void weigh(pq_desk *desk, const pq_node *tree, const uint8_t *in)
{
    for (int32_t i = tree[0].length - 1; i >= 0; i--) {
        int parts = 0;
        for (int32_t c = i + 1; c < end_of(tree, i); c = end_of(tree, c)) {
            parts |= desk->share[c] == SOME ? 3 : desk->share[c] == ALL ? 2 : 1;
        }
        if (tree[i].box >= 0) {
            parts = in[tree[i].box] ? 2 : 1;
        }
        desk->share[i] = parts == 1 ? NONE : parts == 2 ? ALL : SOME;
    }
}

static void copy(writer *w, int32_t node)
{
    memcpy(w->out + w->count, w->tree + node, (size_t)w->tree[node].length * sizeof *w->out);
    w->count += w->tree[node].length;
}

static int32_t begin(writer *w, int32_t kind)
{
    w->out[w->count] = (pq_node){kind, 0};
    return w->count++;
}

/* Ends a node: none is left of no children, one child stands for itself, and two in a row are in any order. */
static void end(writer *w, int32_t node)
{
    int32_t children = 0;
    w->out[node].length = w->count - node;
    for (int32_t c = node + 1; c < w->count; c = end_of(w->out, c)) {
        children++;
    }
    if (children < 2) {
        memmove(w->out + node, w->out + node + 1, (size_t)(w->count - node - 1) * sizeof *w->out);
        w->count--;
    } else if (children == 2) {
        w->out[node].box = PQ_ANY;
    }
}

static void copy_children(writer *w, int32_t node, int share)
{
    for (int32_t c = node + 1; c < end_of(w->tree, node); c = end_of(w->tree, c)) {
        if (w->desk->share[c] == share) {
            copy(w, c);
        }
    }
}

static void copy_together(writer *w, int32_t node, int share)
{
    int32_t group = begin(w, PQ_ANY);
    copy_children(w, node, share);
    end(w, group);
}

static int32_t count_children(const writer *w, int32_t node, int share, int32_t *last)
{
    int32_t count = 0;
    for (int32_t c = node + 1; c < end_of(w->tree, node); c = end_of(w->tree, c)) {
        if (w->desk->share[c] == share) {
            count++;
            *last = c;
        }
    }
    return count;
}

static int row(writer *w, int32_t node, int backwards);

static int row_of_any(writer *w, int32_t node, int backwards)
{
    int32_t mixed = -1;
    if (count_children(w, node, SOME, &mixed) > 1) {
        return 0;
    }
    copy_together(w, node, backwards ? ALL : NONE);
    if (mixed >= 0 && !row(w, mixed, backwards)) {
        return 0;
    }
    copy_together(w, node, backwards ? NONE : ALL);
    return 1;
}

/* Is what is listed from an index on in the order none, some of one, all? */
static int rises(const pq_desk *desk, const int32_t *list, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        int before = desk->share[list[i - 1]], after = desk->share[list[i]];
        if (before > after || (before == SOME && after == SOME)) {
            return 0;
        }
    }
    return 1;
}

static void reverse(int32_t *list, int32_t count)
{
    for (int32_t i = 0; i < count / 2; i++) {
        int32_t kept = list[i];
        list[i] = list[count - 1 - i], list[count - 1 - i] = kept;
    }
}

static int32_t list_children(pq_desk *desk, const pq_node *tree, int32_t node)
{
    int32_t from = desk->listed;
    for (int32_t c = node + 1; c < end_of(tree, node); c = end_of(tree, c)) {
        desk->list[desk->listed++] = c;
    }
    return from;
}

static int row_of_row(writer *w, int32_t node, int backwards)
{
    pq_desk *desk = w->desk;
    int32_t from = list_children(desk, w->tree, node), count = desk->listed - from;
    int32_t *list = desk->list + from;
    if (desk->share[list[0]] == ALL || desk->share[list[count - 1]] == NONE) {
        reverse(list, count);
    }
    int ok = rises(desk, list, count);
    if (backwards) {
        reverse(list, count);
    }
    for (int32_t i = 0; ok && i < count; i++) {
        ok = row(w, list[i], backwards);
    }
    desk->listed = from;
    return ok;
}

/* Writes a subtree as a row without a node of its own: first what is not in the set, then what is, or backwards. */
static int row(writer *w, int32_t node, int backwards)
{
    if (w->desk->share[node] != SOME) {
        copy(w, node);
        return 1;
    }
    return w->tree[node].box == PQ_ANY ? row_of_any(w, node, backwards) : row_of_row(w, node, backwards);
}

static int gather_any(writer *w, int32_t node)
{
    int32_t mixed[2] = {-1, -1}, count = 0;
    for (int32_t c = node + 1; c < end_of(w->tree, node); c = end_of(w->tree, c)) {
        if (w->desk->share[c] == SOME && count++ < 2) {
            mixed[count - 1] = c;
        }
    }
    if (count > 2) {
        return 0;
    }
    int32_t all = begin(w, PQ_ANY);
    copy_children(w, node, NONE);
    int32_t middle = begin(w, PQ_ROW);
    if (count > 0 && !row(w, mixed[0], 0)) {
        return 0;
    }
    copy_together(w, node, ALL);
    if (count > 1 && !row(w, mixed[1], 1)) {
        return 0;
    }
    end(w, middle);
    end(w, all);
    return 1;
}

/* In a row, what is in the set must be a run; only the ends of it may hold other boxes too. */
static int gather_row(writer *w, int32_t node)
{
    int32_t all = begin(w, PQ_ROW), seen = 0, over = 0;
    for (int32_t c = node + 1; c < end_of(w->tree, node); c = end_of(w->tree, c)) {
        int share = w->desk->share[c];
        if (share == NONE) {
            over = seen;
            copy(w, c);
        } else if (over || !row(w, c, seen)) {
            return 0;
        } else {
            over = seen && share == SOME;
            seen = 1;
        }
    }
    end(w, all);
    return 1;
}

static int gather(writer *w, int32_t node)
{
    int32_t mixed = -1, other;
    if (w->desk->share[node] == ALL) {
        copy(w, node);
        return 1;
    }
    if (count_children(w, node, SOME, &mixed) != 1 || count_children(w, node, ALL, &other) > 0) {
        return w->tree[node].box == PQ_ANY ? gather_any(w, node) : gather_row(w, node);
    }
    int32_t all = begin(w, w->tree[node].box);
    for (int32_t c = node + 1; c < end_of(w->tree, node); c = end_of(w->tree, c)) {
        if (c != mixed) {
            copy(w, c);
        } else if (!gather(w, c)) {
            return 0;
        }
    }
    end(w, all);
    return 1;
}

static void write_any(writer *w, const int32_t *boxes, int32_t count)
{
    int32_t all = begin(w, PQ_ANY);
    for (int32_t i = 0; i < count; i++) {
        w->out[w->count++] = (pq_node){boxes[i], 1};
    }
    end(w, all);
}

int32_t pq_free_order(const int32_t *boxes, int32_t count, pq_node *out)
{
    writer w = {NULL, NULL, out, 0};
    write_any(&w, boxes, count);
    return w.count;
}

int32_t pq_gather(pq_desk *desk, const pq_node *tree, const uint8_t *in, pq_node *out)
{
    writer w = {desk, tree, out, 0};
    weigh(desk, tree, in);
    desk->listed = 0;
    return gather(&w, 0) ? w.count : 0;
}

static void exchange(writer *w, int32_t node, const int32_t *boxes, int32_t count)
{
    if (w->desk->share[node] == ALL) {
        write_any(w, boxes, count);
        return;
    }
    int done = 0;
    int32_t all = begin(w, w->tree[node].box);
    for (int32_t c = node + 1; c < end_of(w->tree, node); c = end_of(w->tree, c)) {
        if (w->desk->share[c] == NONE) {
            copy(w, c);
        } else if (!done++) {
            exchange(w, c, boxes, count);
        }
    }
    end(w, all);
}

int32_t pq_exchange(pq_desk *desk, const pq_node *tree, const uint8_t *in, const int32_t *boxes, int32_t count,
                    pq_node *out)
{
    writer w = {desk, tree, out, 0};
    weigh(desk, tree, in);
    exchange(&w, 0, boxes, count);
    return w.count;
}

int32_t pq_blocks(pq_desk *desk, const pq_node *tree, const uint8_t *in, int32_t *from, int32_t *to)
{
    int32_t count = 0;
    weigh(desk, tree, in);
    if (desk->share[0] == ALL) {
        from[0] = 0, to[0] = tree[0].length;
        return 1;
    }
    for (int32_t i = 0; i < tree[0].length; i++) {
        int running = 0;
        for (int32_t c = i + 1; desk->share[i] == SOME && c < end_of(tree, i); c = end_of(tree, c)) {
            if (desk->share[c] != ALL) {
                running = 0;
            } else if (running && tree[i].box == PQ_ROW) {
                to[count - 1] = end_of(tree, c);
            } else {
                from[count] = c, to[count++] = end_of(tree, c);
                running = 1;
            }
        }
    }
    return count;
}

static uint64_t hash_of(const pq_node *tree, int32_t node, const uint64_t *mark)
{
    if (tree[node].box >= 0) {
        return mark[tree[node].box];
    }
    uint64_t any = 0, there = 1, back = 1, power = 1;
    for (int32_t c = node + 1; c < end_of(tree, node); c = end_of(tree, c)) {
        uint64_t hash = hash_of(tree, c, mark);
        any += hash;
        there = there * HASH_BASE + hash;
        back += power * hash;
        power *= HASH_BASE;
    }
    return tree[node].box == PQ_ANY ? mix(any) : mix(mix(there) + mix(back + power - 1));
}

uint64_t pq_hash(const pq_node *tree, const uint64_t *mark)
{
    return hash_of(tree, 0, mark);
}

/* Sorts what is listed from an index on by the lowest place (by insertion: mostly it is in order). */
static void sort_by_place(const pq_desk *desk, int32_t *list, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        int32_t node = list[i], at = i;
        for (; at > 0 && desk->lowest[list[at - 1]] > desk->lowest[node]; at--) {
            list[at] = list[at - 1];
        }
        list[at] = node;
    }
}

static int32_t arrange(pq_desk *desk, const pq_node *tree, int32_t node, int32_t *out)
{
    if (tree[node].box >= 0) {
        out[0] = tree[node].box;
        return 1;
    }
    int32_t from = list_children(desk, tree, node), count = desk->listed - from, written = 0;
    int32_t *list = desk->list + from;
    if (tree[node].box == PQ_ANY) {
        sort_by_place(desk, list, count);
    } else if (desk->lowest[list[0]] > desk->lowest[list[count - 1]]) {
        reverse(list, count);
    }
    for (int32_t i = 0; i < count; i++) {
        written += arrange(desk, tree, list[i], out + written);
    }
    desk->listed = from;
    return written;
}

int32_t pq_arrange(pq_desk *desk, const pq_node *tree, const int32_t *place, int32_t *out)
{
    for (int32_t i = tree[0].length - 1; i >= 0; i--) {
        desk->lowest[i] = tree[i].box >= 0 ? place[tree[i].box] : INT32_MAX;
        for (int32_t c = i + 1; c < end_of(tree, i); c = end_of(tree, c)) {
            desk->lowest[i] = desk->lowest[c] < desk->lowest[i] ? desk->lowest[c] : desk->lowest[i];
        }
    }
    desk->listed = 0;
    return arrange(desk, tree, 0, out);
}
