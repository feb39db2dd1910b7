/* What the parts of the test firmware share: the host's files by semihosting, marks for the counter, painted memory. */
#ifndef BOARD_H
#define BOARD_H

#include <stddef.h>
#include <stdint.h>

/* Memory that was never written holds this. */
#define BOARD_PAINT UINT32_C(0xa5a5a5a5)
/* Memory beside each arena that nothing may touch; where there is an MPU it faults. */
#define BOARD_FENCE_BYTES 32u

int board_main(void);
void board_exit(int code) __attribute__((noreturn));
void board_fence(void);

/* Files of the host. Both return whether all bytes went through. */
int board_read(const char *path, void *data, size_t size);
int board_write(const char *path, const void *data, size_t size);
void board_say(const char *text);
/* A file that is read piece by piece. */
intptr_t board_open(const char *path);
int board_next(intptr_t handle, void *data, size_t size);
int board_rewind(intptr_t handle);

void board_paint(uint32_t *from, const uint32_t *to);
/* Painted words at the low end of a range, in bytes. */
size_t board_untouched(const uint32_t *from, const uint32_t *to);

/* The counter looks for these functions by name. */
void board_begin(void);
void board_end(void);
void board_mark(void);

extern uint32_t board_stack_limit[], board_stack_top[];
extern uint32_t board_fast_start[], board_fast_end[], board_slow_start[], board_slow_end[];

#endif
