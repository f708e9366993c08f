/* channel_limits.h - the limits of channels. docs/limits.md lists them too. */
#ifndef PAL_CHANNEL_LIMITS_H
#define PAL_CHANNEL_LIMITS_H

#define PAL_CHANNEL_NAME_LEN_MAX 64               /* bytes of a name that the bot is called by */
#define PAL_CHANNEL_PIECE_MIN 256                 /* bytes or UTF-16 units of a piece */
#define PAL_CHANNEL_ANSWER_WITHIN_MS 21600000     /* default of answer_within_ms: 6 hours */
#define PAL_CHANNEL_COOLDOWN_MS 600000            /* default of evaluator.cooldown_ms */
#define PAL_CHANNEL_MUTE_MS 1800000               /* how long "be quiet" lasts: 30 minutes */
#define PAL_CHANNEL_PASSIVE_AFTER 3u              /* messages of people after which the bot speaks
                                                     up only about questions */

#endif
