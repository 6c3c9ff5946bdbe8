/* The files that every program is thought to have: 0, 1 and 2. */
#ifndef PAWL_ENGINE_STANDARD_FILES_H
#define PAWL_ENGINE_STANDARD_FILES_H

/* Opens /dev/null for those that a program has closed, or was started without: else the next file
 * to be opened, a store perhaps, would be where the program writes its messages. */
void standard_files_fill(void);

#endif
