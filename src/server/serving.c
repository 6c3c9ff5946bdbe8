#include "server/serving.h"

/* What can happen, one line a state. The states are stored one higher, so that an event that is not
 * named, which is 0, never happens in that state. */
/* clang-format off */
#define ON(event, state) [SERVING_##event] = SERVING_##state + 1
static const unsigned char moves[SERVING_STATE_COUNT][SERVING_EVENT_COUNT] = {
[SERVING_IDLE]        = {ON(LINE, HEAD), ON(OVER, IDLE)},
[SERVING_HEAD]        = {ON(ASKS, IDENTIFYING), ON(ADMITTED, BODY), ON(ANSWERED, SENDING),
                         ON(OVER, IDLE)},
[SERVING_IDENTIFYING] = {ON(RESUMED, IDENTIFIED)},
[SERVING_IDENTIFIED]  = {ON(ADMITTED, BODY), ON(ANSWERED, SENDING), ON(OVER, IDLE)},
[SERVING_BODY]        = {ON(STARTED, WORKING), ON(FINISHED, DONE), ON(ANSWERED, SENDING),
                         ON(OVER, IDLE)},
[SERVING_WORKING]     = {ON(RESUMED, DONE)},
[SERVING_DONE]        = {ON(ANSWERED, SENDING), ON(OVER, IDLE)},
[SERVING_SENDING]     = {ON(STREAMED, STREAMING), ON(OVER, IDLE)},
[SERVING_STREAMING]   = {ON(EMPTIED, LOOKING), ON(OVER, IDLE)},
[SERVING_LOOKING]     = {ON(RESUMED, STREAMING), ON(LAST, ENDING)},
[SERVING_ENDING]      = {ON(OVER, IDLE)},
};
#undef ON
/* clang-format on */

enum serving_state serving_move(enum serving_state state, enum serving_event event)
{
    unsigned char next = moves[state][event];
    return next == 0 ? SERVING_STATE_COUNT : (enum serving_state)(next - 1);
}

bool serving_is_suspended(enum serving_state state)
{
    return state == SERVING_IDENTIFYING || state == SERVING_WORKING || state == SERVING_LOOKING;
}

bool serving_is_stream(enum serving_state state)
{
    return state == SERVING_STREAMING || state == SERVING_LOOKING || state == SERVING_ENDING;
}

enum serving_limit serving_limit(enum serving_state state)
{
    if (serving_is_suspended(state))
        return LIMIT_NONE;
    switch (state) {
    case SERVING_IDLE:
        return LIMIT_IDLE;
    case SERVING_HEAD:
    case SERVING_IDENTIFIED:
    case SERVING_BODY:
        return LIMIT_RECEIVE;
    default:
        return LIMIT_SEND;
    }
}
