/* channel_evaluator.h - a model decides whether the bot speaks up without being asked: the
 * mode MAYBE. */
#ifndef PAL_CHANNEL_EVALUATOR_H
#define PAL_CHANNEL_EVALUATOR_H

#include "channel/channel_host.h"
#include "palaver/id.h"

/* A message has the verdict MAYBE, and was stored. A few seconds after the last message of its
 * chat, a model is asked. On the loop. */
void pal_channel_evaluator_add(
        pal_channel_account *account, const pal_incoming *event, pal_id session);
/* Forgets all messages that wait for that. On the loop. */
void pal_channel_evaluator_forget(pal_channel_account *account);

#endif
