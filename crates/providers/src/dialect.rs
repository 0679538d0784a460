//! What servers of one wire do not agree on.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::endpoint::{Endpoint, EndpointError};
use crate::vision::Vision;

/// What servers of a wire do not agree on.
#[derive(Debug, Clone, PartialEq)]
pub struct Dialect {
    /// Whether the reply is asked for as a stream.
    pub streaming: bool,
    /// Which models see images.
    pub vision: Vision,
    /// More fields of the body. One that we would send too replaces ours; null leaves it out.
    pub extra: BTreeMap<String, Value>,
}

impl Default for Dialect {
    fn default() -> Self {
        Self { streaming: true, vision: Vision::default(), extra: BTreeMap::new() }
    }
}

impl Dialect {
    /// Returns what an endpoint says, whose models must call tools as the wire has it. `reserved`
    /// are the fields that are ours alone.
    pub(crate) fn new(
        endpoint: &Endpoint,
        reserved: &[&'static str],
    ) -> Result<Self, EndpointError> {
        endpoint.check_extra(reserved)?;
        endpoint.check_native_tools()?;
        Ok(Self {
            streaming: endpoint.body.streaming,
            vision: Vision::of(endpoint),
            extra: endpoint.body.extra.clone(),
        })
    }
}
