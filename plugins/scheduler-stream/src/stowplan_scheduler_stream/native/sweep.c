/* Sweep: is there a placement at the live peak of boxes that leave no byte of it empty at any step?
 *
 * Then what begins at a step takes exactly the addresses of what ends there. So both are divided into groups: boxes
 * that end and lie together, and boxes that begin and take just their place, in any order. The sweep goes from step to
 * step with all orders of the boxes alive that the groups so far allow; a PQ-tree holds them. How boxes are divided
 * into groups is all that is tried out. Boxes that end and lie together in all orders need not be divided: whatever
 * does divide them is among the orders of what takes the place of the whole. So mostly there is nothing to choose.
 *
 * Trees that failed are remembered; they count as equal when boxes differ that end together and have one size.
 */
#include "pq.h"
#include "search.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_AT_ONCE = 64, MOST_CHOICES = 256, MANY_BLOCKS = 7, SUBSET_STEPS = 1000 };
enum { MOST_DEPTH = 4000, MEMORY_BITS = 18, CHECK_EVERY = 64, WORK_OF_A_NODE = 16, WORK_OF_A_BOX = 8 };

/* A group: blocks of the boxes that end, and boxes that begin, by their bits. */
typedef struct choice {
    uint64_t blocks, coming;
    int32_t weight;
} choice;

/* What is being tried at one place of the search. */
typedef struct frame {
    int32_t from[MOST_AT_ONCE], to[MOST_AT_ONCE]; /* the blocks of boxes that end, as nodes of the tree tried on */
    int32_t fresh[MOST_AT_ONCE];                  /* boxes that come in the place of a group */
    int32_t blocks, choices;
    choice *choice;
    pq_node *gathered, *tree, room[];
} frame;

struct sweep {
    search *s;
    const timeline *line;
    int32_t most;     /* boxes in a tree, at most */
    int fit;
    int backwards, draws;
    int32_t *by_first, *by_last; /* the timeline's, for each stretch the largest boxes first */
    uint64_t *mark;   /* per box: what is still to come of it */
    uint8_t *in;      /* the set to be gathered */
    int32_t *place, *row; /* a placement being told: the place of each box, and boxes from the floor up */
    int32_t in_row;
    pq_desk desk;
    uint64_t *failed; /* hashes of hopeless trees */
    choice found[MOST_CHOICES + 1], fewest[MOST_CHOICES]; /* choices for a block, and for the hardest block so far */
    int32_t finds, subset_steps;
    int64_t nodes, budget;
    int cut, some;    /* this run was cut off; not all choices were looked at, in this run or in one it learned from */
};

typedef struct boxes {
    const int32_t *box;
    int32_t count;
} boxes;

static boxes boxes_at(const sweep *w, int32_t event, int coming)
{
    const timeline *line = w->line;
    int32_t t = w->backwards ? line->steps - event : event;
    if (coming != w->backwards) {
        return (boxes){w->by_first + line->born_at[t], line->born_at[t + 1] - line->born_at[t]};
    }
    return (boxes){w->by_last + line->ends_at[t], line->ends_at[t + 1] - line->ends_at[t]};
}

static uint64_t all_of(int32_t count)
{
    return count == 64 ? UINT64_MAX : ((uint64_t)1 << count) - 1;
}

static int32_t bits(uint64_t set)
{
    int32_t count = 0;
    for (; set; set &= set - 1) {
        count++;
    }
    return count;
}

static int32_t far_end(const sweep *w, int32_t box)
{
    return w->backwards ? w->line->first[box] : w->line->last[box];
}

/* Boxes of one size that begin together and end together do not differ. */
static int twins(const sweep *w, int32_t a, int32_t b)
{
    return w->s->q->size[a] == w->s->q->size[b] && far_end(w, a) == far_end(w, b);
}

static void add_choice(sweep *w, uint64_t blocks, uint64_t coming)
{
    if (w->finds == MOST_CHOICES - 1) {
        w->some = 1;
        return;
    }
    w->found[w->finds++] = (choice){blocks, coming, bits(blocks) + bits(coming)};
}

/* All sets of boxes that begin and have together just so many bytes; of twins the first ones. */
static void add_subsets(sweep *w, uint64_t blocks, boxes come, uint64_t left, int64_t bytes, uint64_t chosen)
{
    int64_t sum = 0;
    if (bytes == 0) {
        add_choice(w, blocks, chosen);
        return;
    }
    for (int32_t i = 0; i < come.count; i++) {
        sum += left >> i & 1 ? w->s->q->size[come.box[i]] : 0;
    }
    int32_t skipped = -1;
    for (int32_t i = 0; i < come.count && sum >= bytes; i++) {
        int64_t size = w->s->q->size[come.box[i]];
        if (!(left >> i & 1)) {
            continue;
        }
        left &= ~((uint64_t)1 << i);
        sum -= size;
        if (size > bytes || (skipped >= 0 && twins(w, skipped, come.box[i]))) {
            continue;
        }
        if (++w->subset_steps > SUBSET_STEPS) {
            w->some = 1;
            return;
        }
        add_subsets(w, blocks, come, left, bytes - size, chosen | (uint64_t)1 << i);
        skipped = come.box[i];
    }
}

/* Marks the boxes of some blocks; returns their bytes. */
static int64_t mark_blocks(sweep *w, const frame *f, const pq_node *tree, uint64_t blocks, uint8_t value)
{
    int64_t bytes = 0;
    for (int32_t b = 0; b < f->blocks; b++) {
        for (int32_t i = f->from[b]; blocks >> b & 1 && i < f->to[b]; i++) {
            if (tree[i].box >= 0) {
                w->in[tree[i].box] = value;
                bytes += w->s->q->size[tree[i].box];
            }
        }
    }
    return bytes;
}

/* The choices for one union of blocks, if it can lie together. */
static void add_union(sweep *w, frame *f, const pq_node *tree, boxes come, uint64_t left, uint64_t blocks)
{
    int32_t before = w->finds;
    int64_t bytes = mark_blocks(w, f, tree, blocks, 1);
    w->subset_steps = 0;
    if (blocks == all_of(f->blocks)) {
        add_choice(w, blocks, left);
    } else {
        add_subsets(w, blocks, come, left, bytes, 0);
    }
    w->s->work += w->subset_steps * (int64_t)WORK_OF_A_BOX;
    if (w->finds > before) {
        w->s->work += tree[0].length * (int64_t)WORK_OF_A_BOX;
        w->finds = pq_gather(&w->desk, tree, w->in, f->gathered) ? w->finds : before;
    }
    mark_blocks(w, f, tree, blocks, 0);
}

/* Every union of a block with others; of many blocks those of up to three, and all of them. Stops at `most` choices. */
static void add_unions(sweep *w, frame *f, const pq_node *tree, boxes come, uint64_t left, int32_t block, int32_t most)
{
    int32_t n = f->blocks;
    uint64_t one = (uint64_t)1 << block;
    w->finds = 0;
    add_union(w, f, tree, come, left, all_of(n));
    for (uint64_t group = 1; n <= MANY_BLOCKS && group < all_of(n) && w->finds < most; group++) {
        if (group & one) {
            add_union(w, f, tree, come, left, group);
        }
    }
    w->some |= n > MANY_BLOCKS;
    for (int32_t a = 0; n > MANY_BLOCKS && a < n; a++) {
        for (int32_t b = 0; b <= a && w->finds < most; b++) {
            if ((a != block && b != block && a != b) || (a == block && b == block)) {
                add_union(w, f, tree, come, left, one | (uint64_t)1 << a | (uint64_t)1 << b);
            }
        }
    }
}

/* Sorts groups of few boxes to the front; later runs let chance have its say. */
static void sort_choices(sweep *w, choice *list, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        choice kept = list[i];
        int32_t at = i;
        for (; at > 0 && list[at - 1].weight > kept.weight; at--) {
            list[at] = list[at - 1];
        }
        list[at] = kept;
    }
    for (int32_t i = 0; w->draws && i + 1 < count; i++) {
        int32_t at = i;
        while (at + 1 < count && search_draw(w->s) % 5 == 0) {
            at++;
        }
        choice kept = list[at];
        memmove(list + i + 1, list + i, (size_t)(at - i) * sizeof *list);
        list[i] = kept;
    }
}

/* Lists the choices for the block with the fewest: some group it must be in. 0 when there is no memory. */
static int list_choices(sweep *w, frame *f, const pq_node *tree, boxes end, uint64_t ending, boxes come, uint64_t left)
{
    for (int32_t i = 0; i < end.count; i++) {
        w->in[end.box[i]] = (uint8_t)(ending >> i & 1);
    }
    f->blocks = pq_blocks(&w->desk, tree, w->in, f->from, f->to);
    for (int32_t i = 0; i < end.count; i++) {
        w->in[end.box[i]] = 0;
    }
    f->choices = MOST_CHOICES;
    for (int32_t block = 0; block < f->blocks && f->choices > 1; block++) {
        add_unions(w, f, tree, come, left, block, f->choices);
        if (w->finds < f->choices) {
            f->choices = w->finds;
            memcpy(w->fewest, w->found, (size_t)w->finds * sizeof *w->found);
        }
    }
    f->choice = malloc(((size_t)f->choices + 1) * sizeof *f->choice);
    if (f->choice) {
        memcpy(f->choice, w->fewest, (size_t)f->choices * sizeof *f->choice);
        sort_choices(w, f->choice, f->choices);
    }
    return f->choice != NULL;
}

static void stack_row(sweep *w)
{
    int64_t at = w->s->floor;
    for (int32_t i = 0; i < w->in_row; i++) {
        w->s->offset[w->row[i]] = at;
        at += w->s->q->size[w->row[i]];
    }
}

/* From the row with what has come to the row before, with what was to end in its place. */
static void go_back(sweep *w, const pq_node *gathered, const int32_t *come, int32_t count)
{
    int32_t there = INT32_MAX;
    stack_row(w);
    for (int32_t i = 0; i < w->in_row; i++) {
        w->place[w->row[i]] = i;
    }
    for (int32_t i = 0; i < count; i++) {
        there = w->place[come[i]] < there ? w->place[come[i]] : there;
    }
    for (int32_t i = 0; i < gathered[0].length; i++) {
        if (gathered[i].box >= 0 && w->in[gathered[i].box]) {
            w->place[gathered[i].box] = there;
        }
    }
    w->in_row = pq_arrange(&w->desk, gathered, w->place, w->row);
}

static int sweep_on(sweep *w, int32_t event, const pq_node *tree, int32_t depth);
static int divide(sweep *w, int32_t event, const pq_node *tree, uint64_t ending, uint64_t left, int32_t depth);

static int try_choice(sweep *w, frame *f, int32_t event, const pq_node *tree, const choice *c, uint64_t ending,
                      uint64_t left, int32_t depth)
{
    int32_t *fresh = f->fresh, count = 0;
    boxes come = boxes_at(w, event, 1), end = boxes_at(w, event, 0);
    for (int32_t i = 0; i < come.count; i++) {
        if (c->coming >> i & 1) {
            fresh[count++] = come.box[i];
        }
    }
    mark_blocks(w, f, tree, c->blocks, 1);
    pq_gather(&w->desk, tree, w->in, f->gathered);
    pq_exchange(&w->desk, f->gathered, w->in, fresh, count, f->tree);
    for (int32_t i = 0; i < end.count; i++) {
        ending &= ~((uint64_t)w->in[end.box[i]] << i);
    }
    mark_blocks(w, f, tree, c->blocks, 0);
    if (!divide(w, event, f->tree, ending, left & ~c->coming, depth + 1)) {
        return 0;
    }
    mark_blocks(w, f, tree, c->blocks, 1);
    go_back(w, f->gathered, fresh, count);
    mark_blocks(w, f, tree, c->blocks, 0);
    return 1;
}

static frame *frame_new(const sweep *w)
{
    size_t room = PQ_ROOM(w->most);
    frame *f = malloc(sizeof *f + 2 * room * sizeof *f->room);
    if (f) {
        f->gathered = f->room, f->tree = f->room + room;
        f->choice = NULL;
    }
    return f;
}

static void frame_free(frame *f)
{
    if (f) {
        free(f->choice);
        free(f);
    }
}

/* Divides what is left of the boxes that end and begin at an event into groups, and goes on. */
static int divide(sweep *w, int32_t event, const pq_node *tree, uint64_t ending, uint64_t left, int32_t depth)
{
    if (!ending) {
        return sweep_on(w, event + 1, tree, depth);
    }
    w->nodes++;
    w->s->work += WORK_OF_A_NODE + tree[0].length * (int64_t)WORK_OF_A_BOX;
    w->cut |= w->nodes > w->budget || depth > MOST_DEPTH || (w->nodes % CHECK_EVERY == 0 && search_spent(w->s));
    if (w->cut) {
        return 0;
    }
    frame *f = frame_new(w);
    int ok = f && list_choices(w, f, tree, boxes_at(w, event, 0), ending, boxes_at(w, event, 1), left), found = 0;
    for (int32_t i = 0; ok && i < f->choices && !found && !w->cut; i++) {
        found = try_choice(w, f, event, tree, f->choice + i, ending, left, depth);
    }
    w->cut |= !ok;
    frame_free(f);
    return found;
}

/* Goes on to an event with a tree of the boxes alive before it. */
static int sweep_on(sweep *w, int32_t event, const pq_node *tree, int32_t depth)
{
    if (event >= w->line->steps) {
        w->in_row = pq_arrange(&w->desk, tree, w->place, w->row);
        return 1;
    }
    uint64_t hash = mix(pq_hash(tree, w->mark) + (uint64_t)(uint32_t)event) | 1u;
    uint64_t *entry = w->failed + (hash >> (64 - MEMORY_BITS));
    if (*entry == hash) {
        return 0;
    }
    uint64_t ending = all_of(boxes_at(w, event, 0).count), coming = all_of(boxes_at(w, event, 1).count);
    if (divide(w, event, tree, ending, coming, depth)) {
        return 1;
    }
    if (!w->cut) {
        *entry = hash;
    }
    return 0;
}

/* Can the boxes lie on one another in any order? */
static int stack_in_any_order(const pack_problem *q)
{
    int64_t alignment = 1;
    for (int32_t i = 0; i < q->count; i++) {
        alignment = q->alignment[i] > alignment ? q->alignment[i] : alignment;
    }
    for (int32_t i = 0; i < q->count; i++) {
        if (q->pinned[i] >= 0 || alignment % q->alignment[i] || q->size[i] % alignment) {
            return 0;
        }
    }
    return q->floor_bytes % alignment == 0;
}

/* Do the boxes fill the live peak at every step? */
static int fill(const search *s, const timeline *line)
{
    int64_t alive = s->floor;
    for (int32_t t = 0; t <= line->steps; t++) {
        int32_t ends = line->ends_at[t + 1] - line->ends_at[t], born = line->born_at[t + 1] - line->born_at[t];
        for (int32_t i = line->ends_at[t]; i < line->ends_at[t + 1]; i++) {
            alive -= s->q->size[line->by_last[i]];
        }
        for (int32_t i = line->born_at[t]; i < line->born_at[t + 1]; i++) {
            alive += s->q->size[line->by_first[i]];
        }
        if ((t < line->steps && alive != s->lower) || ends > MOST_AT_ONCE || born > MOST_AT_ONCE) {
            return 0;
        }
    }
    return line->steps > 0;
}

/* Within each stretch the largest first, twins beside each other. */
static void sort_by_size(const sweep *w, int32_t *list, const int32_t *begins, const int32_t *far)
{
    for (int32_t t = 0; t <= w->line->steps; t++) {
        for (int32_t i = begins[t] + 1; i < begins[t + 1]; i++) {
            int32_t box = list[i], at = i;
            int64_t size = w->s->q->size[box];
            for (; at > begins[t]; at--) {
                int32_t other = list[at - 1];
                int64_t its = w->s->q->size[other];
                if (its > size || (its == size && far[other] <= far[box])) {
                    break;
                }
                list[at] = other;
            }
            list[at] = box;
        }
    }
}

/* The most boxes alive at two neighbouring stretches: while groups are exchanged, a tree holds some of both. */
static int32_t most_boxes(const timeline *line)
{
    int32_t alive = 0, most = 0;
    for (int32_t t = 0; t <= line->steps; t++) {
        alive += line->born_at[t + 1] - line->born_at[t];
        most = alive > most ? alive : most;
        alive -= line->ends_at[t + 1] - line->ends_at[t];
    }
    return most;
}

sweep *sweep_new(search *s, const timeline *line)
{
    size_t n = (size_t)s->q->count + 1;
    sweep *w = calloc(1, sizeof *w);
    if (!w) {
        return NULL;
    }
    w->s = s, w->line = line;
    w->fit = stack_in_any_order(s->q) && fill(s, line);
    if (!w->fit) {
        return w;
    }
    w->most = most_boxes(line);
    w->by_first = malloc(n * sizeof *w->by_first), w->by_last = malloc(n * sizeof *w->by_last);
    w->mark = calloc(n, sizeof *w->mark), w->in = calloc(n, 1);
    w->place = calloc(n, sizeof *w->place), w->row = calloc(n, sizeof *w->row);
    w->failed = calloc((size_t)1 << MEMORY_BITS, sizeof *w->failed);
    if (!(pq_desk_new(&w->desk, w->most) && w->by_first && w->by_last && w->mark && w->in && w->place && w->row
          && w->failed)) {
        sweep_free(w);
        return NULL;
    }
    memcpy(w->by_first, line->by_first, n * sizeof *w->by_first);
    memcpy(w->by_last, line->by_last, n * sizeof *w->by_last);
    sort_by_size(w, w->by_first, line->born_at, line->last);
    sort_by_size(w, w->by_last, line->ends_at, line->first);
    return w;
}

void sweep_free(sweep *w)
{
    if (w) {
        pq_desk_free(&w->desk);
        free(w->by_first), free(w->by_last), free(w->mark), free(w->in), free(w->place), free(w->row);
        free(w->failed);
        free(w);
    }
}

answer sweep_run(sweep *w, int backwards, int draws, int64_t budget)
{
    if (!w->fit) {
        return ANSWER_UNFIT;
    }
    w->backwards = backwards, w->draws = draws;
    w->budget = budget;
    w->nodes = 0;
    w->cut = 0;
    for (int32_t i = 0; i < w->s->q->count; i++) {
        uint64_t end = (uint64_t)(uint32_t)far_end(w, i) << 1 | (unsigned)backwards;
        w->mark[i] = mix((uint64_t)w->s->q->size[i] + mix(end + 1));
        w->s->offset[i] = w->s->floor;
    }
    boxes first = boxes_at(w, 0, 1);
    pq_node *tree = malloc(PQ_ROOM(w->most) * sizeof *tree);
    if (!tree) {
        return ANSWER_CUT;
    }
    pq_free_order(first.box, first.count, tree);
    int found = sweep_on(w, 1, tree, 0);
    free(tree);
    if (found) {
        stack_row(w);
        return ANSWER_FOUND;
    }
    return w->cut || w->some ? ANSWER_CUT : ANSWER_NONE;
}
