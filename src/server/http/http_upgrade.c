/* http_upgrade.c - gives a connection to another protocol, by libmicrohttpd's upgrade.
 *
 * The exchange lives until the connection is closed. While the other protocol uses the connection,
 * the connection counts in connections_max and has no deadline, as during a request. */
#include "base/memory.h"
#include "server/http/http_internal.h"

struct pal_upgrade {
    struct MHD_UpgradeResponseHandle *handle;
    void (*switched)(pal_upgrade *upgrade, int fd, pal_str early, void *user);
    void *user;
};

/* The callback of libmicrohttpd, on the connection's thread. */
static void on_upgrade(void *user, struct MHD_Connection *mhd, void *request, const char *early,
        size_t early_len, MHD_socket fd, struct MHD_UpgradeResponseHandle *handle)
{
    pal_upgrade *upgrade = user;
    (void)mhd;
    (void)request;
    upgrade->handle = handle;
    upgrade->switched(upgrade, fd, pal_str_make(early, early_len), upgrade->user);
}

void pal_exchange_upgrade(pal_exchange *x, const char *protocol,
        void (*switched)(pal_upgrade *upgrade, int fd, pal_str early, void *user), void *user)
{
    pal_upgrade *upgrade = pal_malloc(sizeof *upgrade);
    struct MHD_Response *response = NULL;
    if (upgrade) {
        *upgrade = (pal_upgrade){.switched = switched, .user = user};
        response = MHD_create_response_for_upgrade(on_upgrade, upgrade);
    }
    if (response) {
        MHD_add_response_header(response, MHD_HTTP_HEADER_UPGRADE, protocol);
        pal_exchange_decorate(x, response, NULL);
    } else {
        pal_free(upgrade);
        switched(NULL, -1, (pal_str){0}, user);
    }
    pal_exchange_hand_over(x, response, 101);
}

void pal_upgrade_close(pal_upgrade *upgrade)
{
    MHD_upgrade_action(upgrade->handle, MHD_UPGRADE_ACTION_CLOSE);
    pal_free(upgrade);
}
