/* Tells the service manager how the server is, as sd_notify(3) does, when there is one. */
#ifndef PAWL_CLI_NOTIFY_H
#define PAWL_CLI_NOTIFY_H

/* Ready to serve; reading its settings again, until it is ready once more; about to end. Without
 * NOTIFY_SOCKET in the environment they do nothing. */
void notify_ready(void);
void notify_reloading(void);
void notify_stopping(void);

#endif
