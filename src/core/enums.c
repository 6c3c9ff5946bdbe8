#include "core/enums.h"

#define ENTRY_TEXT(symbol, text) STR_INIT(text),
#define NAMES(name, LIST)                                                                          \
    static const struct str name##_texts[] = {STR_INIT(""), LIST(ENTRY_TEXT)};                     \
    const struct record_names name##_names = {name##_texts,                                        \
                                              sizeof name##_texts / sizeof name##_texts[0]};

NAMES(error_class, ERROR_CLASSES)
NAMES(stage, STAGES)
NAMES(dead_letter_reason, DEAD_LETTER_REASONS)
NAMES(wait_type, WAIT_TYPES)
const struct record_names wait_request_names = {wait_type_texts, WAIT_SIGNAL + 1};
NAMES(outcome, OUTCOMES)
NAMES(cancel_mode, CANCEL_MODES)
NAMES(doubt_policy, DOUBT_POLICIES)
NAMES(resolution, RESOLUTIONS)
NAMES(retry_strategy, RETRY_STRATEGIES)
NAMES(jitter, JITTERS)
NAMES(exhausted_policy, EXHAUSTED_POLICIES)
NAMES(failure_policy, FAILURE_POLICIES)
