/* Included before the generated source: each firing of an operator is marked for the counter. */
void board_mark(void);
#define STOW_ON_FIRING() board_mark()
