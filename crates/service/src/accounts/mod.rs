//! Who asks: API keys, and the signed links that stand for one upload.

pub(crate) mod key;
pub(crate) mod link;
