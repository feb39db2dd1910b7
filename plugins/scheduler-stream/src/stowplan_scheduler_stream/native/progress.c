/* Weighs firings: after each only the nodes are looked at again whose inputs, or whose inputs' other readers, moved. */
#include "progress.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t x)
{
    x ^= x >> 30, x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27, x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Two independent words for "this node has done so many units": 128 bits of hash take no state for another. */
static void toggle(progress *g, int32_t node)
{
    uint64_t what = (uint64_t)(uint32_t)node << 32 | (uint32_t)g->done[node];
    g->hash[0] ^= mix(what + 0x9e3779b97f4a7c15u);
    g->hash[1] ^= mix(what * 0xd6e8feb86659fd93u + 0xa0761d6478bd642fu);
}

static void put(uint64_t *set, int32_t node, int on)
{
    uint64_t bit = (uint64_t)1 << (node & 63);
    set[node >> 6] = on ? set[node >> 6] | bit : set[node >> 6] & ~bit;
}

/* Rows of a tensor that exist. */
static int32_t produced(const progress *g, int32_t tensor)
{
    const order_problem *p = g->problem;
    int32_t node = g->maker[tensor];
    if (node < 0) {
        return p->tensor_rows[tensor];
    }
    if (p->node_by_input[node]) {
        return g->done[node] == p->node_units[node] ? p->tensor_rows[tensor] : 0;
    }
    return g->done[node];
}

/* The first row of a tensor that anyone still needs, were `node` at `done` units. */
static int32_t lowest(const progress *g, int32_t tensor, int32_t node, int32_t done)
{
    const order_problem *p = g->problem;
    int32_t low = p->tensor_rows[tensor];
    for (int32_t i = g->reader_first[tensor]; i < g->reader_first[tensor + 1]; i++) {
        int32_t read = g->readers[i], reader = p->read_node[read];
        int32_t at = p->read_low[p->read_first[read] + (reader == node ? done : g->done[reader])];
        low = at < low ? at : low;
    }
    return low;
}

static int64_t bytes_between(const progress *g, int32_t tensor, int32_t low, int32_t high)
{
    const int64_t *cost = g->cost + g->cost_first[tensor];
    return low < high ? cost[high] - cost[low] : 0;
}

static int is_ready(const progress *g, int32_t node)
{
    const order_problem *p = g->problem;
    int32_t unit = g->done[node];
    if (node < g->first_node || node >= g->last_node || unit >= p->node_units[node]) {
        return 0;
    }
    for (int32_t r = p->node_first_read[node]; r < p->node_first_read[node + 1]; r++) {
        if (produced(g, p->read_tensor[r]) < p->read_high[p->read_first[r] + unit]) {
            return 0;
        }
    }
    return 1;
}

/* Bytes of a node's inputs that nobody needs after its next unit. */
static int64_t freed(const progress *g, int32_t node)
{
    const order_problem *p = g->problem;
    int32_t unit = g->done[node];
    int64_t total = 0;
    for (int32_t r = p->node_first_read[node]; r < p->node_first_read[node + 1]; r++) {
        int32_t source = p->read_tensor[r];
        int repeated = 0;
        for (int32_t q = p->node_first_read[node]; q < r; q++) {
            repeated |= p->read_tensor[q] == source;
        }
        if (repeated || p->tensor_whole[source]) {
            continue;
        }
        int32_t made = produced(g, source);
        int32_t from = lowest(g, source, node, unit), to = lowest(g, source, node, unit + 1);
        total += bytes_between(g, source, from < made ? from : made, to < made ? to : made);
    }
    return total;
}

/* Bytes that appear with a node's next unit, and those of them that stay. */
static void produce(const progress *g, int32_t node, int64_t *born, int64_t *kept)
{
    const order_problem *p = g->problem;
    int32_t unit = g->done[node], tensor = p->node_output[node];
    int last = unit + 1 == p->node_units[node];
    int64_t row = p->tensor_row_bytes[tensor], whole = row * p->tensor_rows[tensor];
    if (p->tensor_whole[tensor]) {
        *born = (p->node_by_input[node] ? last : unit == 0) ? whole : 0;
        *kept = *born;
    } else if (p->node_by_input[node]) {
        *born = last ? whole : 0;
        *kept = last ? bytes_between(g, tensor, 0, p->tensor_rows[tensor]) : 0;
    } else {
        *born = row;
        *kept = bytes_between(g, tensor, unit, unit + 1);
    }
    *born += unit == 0 ? p->node_accumulator[node] : 0;
    *kept += (unit == 0 ? p->node_accumulator[node] : 0) - (last ? p->node_accumulator[node] : 0);
}

static void weigh(progress *g, int32_t node)
{
    int64_t kept = 0;
    int ready = is_ready(g, node);
    g->steps++;
    put(g->ready, node, ready);
    if (ready) {
        produce(g, node, &g->born[node], &kept);
        g->change[node] = kept - freed(g, node);
    }
    put(g->easy, node, ready && g->change[node] <= 0);
}

void progress_weigh(progress *g)
{
    while (g->stale_count > 0) {
        int32_t node = g->stale[--g->stale_count];
        g->is_stale[node] = 0;
        weigh(g, node);
    }
}

static void mark(progress *g, int32_t node)
{
    if (!g->is_stale[node]) {
        g->is_stale[node] = 1;
        g->stale[g->stale_count++] = node;
    }
}

static void mark_readers(progress *g, int32_t tensor)
{
    for (int32_t i = g->reader_first[tensor]; i < g->reader_first[tensor + 1]; i++) {
        mark(g, g->problem->read_node[g->readers[i]]);
    }
}

static void mark_around(progress *g, int32_t node)
{
    const order_problem *p = g->problem;
    mark(g, node);
    mark_readers(g, p->node_output[node]);
    for (int32_t r = p->node_first_read[node]; r < p->node_first_read[node + 1]; r++) {
        mark_readers(g, p->read_tensor[r]);
    }
}

void progress_fire(progress *g, int32_t node)
{
    g->live += g->change[node];
    toggle(g, node);
    g->done[node]++;
    toggle(g, node);
    mark_around(g, node);
}

void progress_unfire(progress *g, int32_t node)
{
    toggle(g, node);
    g->done[node]--;
    toggle(g, node);
    mark_around(g, node);
}

static int64_t alive(const progress *g)
{
    const order_problem *p = g->problem;
    int64_t live = 0;
    for (int32_t t = 0; t < p->tensor_count; t++) {
        int32_t rows = produced(g, t);
        if (p->tensor_whole[t]) {
            live += rows > 0 ? p->tensor_row_bytes[t] * (int64_t)p->tensor_rows[t] : 0;
        } else {
            live += bytes_between(g, t, lowest(g, t, -1, 0), rows);
        }
    }
    return live;
}

void progress_start(progress *g, int32_t first_node, int32_t last_node)
{
    g->first_node = first_node;
    g->last_node = last_node;
    g->hash[0] = g->hash[1] = 0;
    for (int32_t node = 0; node < g->problem->node_count; node++) {
        g->done[node] = node < first_node ? g->problem->node_units[node] : 0;
        toggle(g, node);
    }
    memset(g->ready, 0, (size_t)g->words * sizeof *g->ready);
    memset(g->easy, 0, (size_t)g->words * sizeof *g->easy);
    for (int32_t node = first_node; node < last_node; node++) {
        mark(g, node);
    }
    g->live = alive(g);
}

/* Counting sort of the reads by tensor. */
static void group_reads(progress *g)
{
    const order_problem *p = g->problem;
    for (int32_t r = 0; r < p->read_count; r++) {
        g->reader_first[p->read_tensor[r] + 2]++;
    }
    for (int32_t t = 0; t < p->tensor_count; t++) {
        g->reader_first[t + 2] += g->reader_first[t + 1];
    }
    for (int32_t r = 0; r < p->read_count; r++) {
        g->readers[g->reader_first[p->read_tensor[r] + 1]++] = r;
    }
}

static void index_tensors(progress *g)
{
    const order_problem *p = g->problem;
    int64_t start = 0;
    for (int32_t t = 0; t < p->tensor_count; t++) {
        g->maker[t] = -1;
        g->cost_first[t] = start;
        for (int32_t row = 0; row < p->tensor_rows[t]; row++) {
            int64_t bytes = p->row_read[start - t + row] ? p->tensor_row_bytes[t] : 0;
            g->cost[start + row + 1] = g->cost[start + row] + bytes;
        }
        start += p->tensor_rows[t] + 1;
    }
    for (int32_t node = 0; node < p->node_count; node++) {
        g->maker[p->node_output[node]] = node; /* spills share a last tensor that nobody reads: any of them will do */
    }
}

int progress_open(progress *g, const order_problem *p)
{
    size_t nodes = (size_t)p->node_count + 1, tensors = (size_t)p->tensor_count, rows = 0;
    for (size_t t = 0; t < tensors; t++) {
        rows += (size_t)p->tensor_rows[t] + 1;
    }
    g->problem = p;
    g->words = p->node_count / 64 + 1;
    g->done = calloc(nodes, sizeof *g->done);
    g->ready = calloc((size_t)g->words, sizeof *g->ready);
    g->easy = calloc((size_t)g->words, sizeof *g->easy);
    g->born = calloc(nodes, sizeof *g->born);
    g->change = calloc(nodes, sizeof *g->change);
    g->reader_first = calloc(tensors + 2, sizeof *g->reader_first);
    g->readers = calloc((size_t)p->read_count + 1, sizeof *g->readers);
    g->maker = calloc(tensors + 1, sizeof *g->maker);
    g->cost = calloc(rows + 1, sizeof *g->cost);
    g->cost_first = calloc(tensors + 1, sizeof *g->cost_first);
    g->stale = calloc(nodes, sizeof *g->stale);
    g->is_stale = calloc(nodes, sizeof *g->is_stale);
    if (!(g->done && g->ready && g->easy && g->born && g->change && g->reader_first && g->readers && g->maker && g->cost
          && g->cost_first && g->stale && g->is_stale)) {
        return 0;
    }
    group_reads(g);
    index_tensors(g);
    return 1;
}

void progress_close(progress *g)
{
    free(g->done), free(g->ready), free(g->easy), free(g->born), free(g->change), free(g->reader_first);
    free(g->readers), free(g->maker), free(g->cost), free(g->cost_first), free(g->stale), free(g->is_stale);
}
