/* PQ-trees: all orders of some boxes in which given sets of them lie together (K. Booth and G. Lueker, 1976). */
#ifndef STOWPLAN_PQ_H
#define STOWPLAN_PQ_H

#include <stdint.h>

enum { PQ_ANY = -1, PQ_ROW = -2 };

/* A tree is an array, each node before its children: a box, or a node whose children come in any order, or one whose
 * children come in this order or its reverse. */
typedef struct pq_node {
    int32_t box;    /* or PQ_ANY, PQ_ROW */
    int32_t length; /* nodes of this subtree, itself included */
} pq_node;

/* Nodes to hold a tree of so many boxes while it is written. */
#define PQ_ROOM(boxes) (4 * (size_t)(boxes) + 8)

/* Room to work in for trees of so many boxes. */
typedef struct pq_desk {
    uint8_t *share;  /* per node: which part of its boxes is in the set */
    int32_t *list;   /* children of the nodes being looked at */
    int32_t listed;
    int32_t *lowest; /* per node: the first place of its boxes */
} pq_desk;

int pq_desk_new(pq_desk *desk, int32_t boxes);
void pq_desk_free(pq_desk *desk);

/* Writes a tree of boxes in any order; returns its nodes. */
int32_t pq_free_order(const int32_t *boxes, int32_t count, pq_node *out);

/* Writes the orders of a tree in which the boxes marked in `in` lie together; its nodes, or 0 when there are none. */
int32_t pq_gather(pq_desk *desk, const pq_node *tree, const uint8_t *in, pq_node *out);

/* Writes a gathered tree with other boxes, in any order, in the place of those marked; returns its nodes. */
int32_t pq_exchange(pq_desk *desk, const pq_node *tree, const uint8_t *in, const int32_t *boxes, int32_t count,
                    pq_node *out);

/* Finds the parts of the marked boxes that lie together in every order, largest ones: each is a range of nodes
 * [from[i], to[i]). Returns how many. */
int32_t pq_blocks(pq_desk *desk, const pq_node *tree, const uint8_t *in, int32_t *from, int32_t *to);

/* The same for trees with the same orders of boxes with the same marks. */
uint64_t pq_hash(const pq_node *tree, const uint64_t *mark);

/* Writes the order of the tree that follows the places of its boxes; returns how many. */
int32_t pq_arrange(pq_desk *desk, const pq_node *tree, const int32_t *place, int32_t *out);

#endif
