/* channel_limits.h - the limits of channels. docs/limits.md lists them too. */
#ifndef PAL_CHANNEL_LIMITS_H
#define PAL_CHANNEL_LIMITS_H

#define PAL_CHANNEL_NAME_LEN_MAX 64               /* bytes of a name that the bot is called by */
#define PAL_CHANNEL_PIECE_MIN 256                 /* bytes or UTF-16 units of a piece */
#define PAL_CHANNEL_MARKDOWN_BYTES_MAX (256u << 10) /* bytes of a text that is read as Markdown */
#define PAL_CHANNEL_LINK_LEN_MAX 2048              /* bytes of the text or the address of a link */
#define PAL_CHANNEL_ANSWER_WITHIN_MS 21600000     /* default of answer_within_ms: 6 hours */
#define PAL_CHANNEL_COOLDOWN_MS 600000            /* default of evaluator.cooldown_ms */
#define PAL_CHANNEL_MUTE_MS 1800000               /* how long "be quiet" lasts: 30 minutes */
#define PAL_CHANNEL_PASSIVE_AFTER 3u              /* messages of people after which the bot speaks
                                                     up only about questions */
#define PAL_CHANNEL_ACCOUNTS_MAX 100               /* accounts of one process */
#define PAL_CHANNEL_BATCH_MAX 1000                 /* events in one batch */
#define PAL_CHANNEL_CURSOR_LEN_MAX (64u << 10)     /* bytes of a cursor */
#define PAL_CHANNEL_TEXT_BYTES_MAX (256u << 10)    /* bytes of the text of one message */
#define PAL_CHANNEL_RENEW_MS 10000                 /* time between renewals of a record */
#define PAL_CHANNEL_LOOK_MS 2000                   /* time between looks at another's account */
#define PAL_CHANNEL_STALE_MS 35000                 /* a record without renewal for so long
                                                     has no owner */
#define PAL_CHANNEL_DELAY_MS_MAX 60000             /* longest delay before a new attempt */
#define PAL_CHANNEL_CHATS_MAX 20000                /* chats and sessions that are remembered */
#define PAL_CHANNEL_KEPT_MS INT64_C(2592000000)    /* how long a channel_event and a channel_dead
                                                     are kept: 30 days */
#define PAL_CHANNEL_BOT_ANSWERS_MAX 5              /* answers to bots in one chat within a minute */
#define PAL_CHANNEL_BOT_TIRED_MS 300000            /* how long bots get no answer after those */
#define PAL_CHANNEL_TOPICS_MAX 16                  /* topics of a chat in which the bot was asked */
#define PAL_CHANNEL_LOADED_MAX 256                 /* answers of an account that are in memory */
#define PAL_CHANNEL_FLYING_MAX 16                  /* messages of an account at once */
#define PAL_CHANNEL_ONCE_MS INT64_C(72000000)      /* how long a service surely recognizes the id
                                                     of a message: 20 hours */
#define PAL_CHANNEL_SEND_MS_MAX INT64_C(86400000)  /* how long delivery is tried: 24 hours */
#define PAL_CHANNEL_REQUEST_BYTES_MAX (16u << 20)  /* body of a request from a service */

#endif
