/* Which word was most likely meant. */
#include <string.h>

#include "cli/cli.h"

enum { WORD_LEN_MAX = 31 };

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* How many letters must be added, dropped, changed or swapped with their neighbour to turn one word
 * into the other. Of a long word only the beginning counts. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t distance[WORD_LEN_MAX + 1][WORD_LEN_MAX + 1];
    size_t a_len = min_size(strlen(a), WORD_LEN_MAX);
    size_t b_len = min_size(strlen(b), WORD_LEN_MAX);

    for (size_t i = 0; i <= a_len; i++) {
        for (size_t k = 0; k <= b_len; k++) {
            if (i == 0 || k == 0) {
                distance[i][k] = i + k;
                continue;
            }
            size_t changed = distance[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
            size_t moved = min_size(distance[i - 1][k], distance[i][k - 1]) + 1;
            distance[i][k] = min_size(changed, moved);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                distance[i][k] = min_size(distance[i][k], distance[i - 2][k - 2] + 1);
        }
    }
    return distance[a_len][b_len];
}

const char *nearest_word(const char *word, const char *const *words, size_t count)
{
    enum { NEAR = 2 };
    const char *nearest = NULL;
    size_t distance = NEAR + 1;
    for (size_t i = 0; i < count; i++) {
        if (word[0] != '\0' && strncmp(words[i], word, strlen(word)) == 0)
            return words[i];
        size_t away = edit_distance(word, words[i]);
        if (away < distance) {
            nearest = words[i];
            distance = away;
        }
    }
    return nearest;
}
