/* Merge sort of edges: a row that lives long has thousands of neighbours, and is looked at thousands of times. */
#include "edges.h"

#include <string.h>

enum { SHORT = 12 };

static void insert_all(edge *edges, int32_t first, int32_t last)
{
    for (int32_t i = first + 1; i < last; i++) {
        edge moved = edges[i];
        int32_t to = i;
        for (; to > first && edges[to - 1].at > moved.at; to--) {
            edges[to] = edges[to - 1];
        }
        edges[to] = moved;
    }
}

static void merge(edge *edges, edge *spare, int32_t first, int32_t middle, int32_t last)
{
    int32_t a = 0, b = middle, to = first, count = middle - first;
    if (edges[middle - 1].at <= edges[middle].at) {
        return;
    }
    memcpy(spare, edges + first, (size_t)count * sizeof *spare);
    while (a < count) {
        edges[to++] = b < last && edges[b].at < spare[a].at ? edges[b++] : spare[a++];
    }
}

void sort_edges(edge *edges, edge *spare, int32_t count)
{
    for (int32_t first = 0; first < count; first += SHORT) {
        insert_all(edges, first, count - first < SHORT ? count : first + SHORT);
    }
    for (int32_t width = SHORT; width < count; width *= 2) {
        for (int32_t first = 0; first + width < count; first += 2 * width) {
            int32_t middle = first + width;
            merge(edges, spare, first, middle, count - middle < width ? count : middle + width);
        }
    }
}
