//! Checks which public types are `Send` and `Sync`.

use profiler_prometheus::{
    Metrics, MetricsError, MetricsServer, MetricsToken, TextFormat, TokenError,
};
use test_support::assert_send_sync;

assert_send_sync!(
    Metrics,
    MetricsError,
    MetricsServer,
    MetricsToken,
    TextFormat,
    TokenError
);
