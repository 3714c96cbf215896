//! Requests written by people.

use serde::de::DeserializeOwned;

/// Reads a request from JSON text and says where it is wrong:
/// `equilibration[1].time: must be a number >= 0, got -0.5 at line 3 column 12`.
///
/// ```
/// use molbox::workflow::types::JobCreateParams;
///
/// let text = r#"{"temperature": 310, "equilibration": [{"time": 0.1}, {"time": -0.5}]}"#;
/// let error = molbox::from_json::<JobCreateParams>(text).unwrap_err();
/// assert!(error.starts_with("equilibration[1].time: must be a number >= 0, got -0.5"));
/// ```
///
/// # Errors
///
/// Path and reason of the first value that the document does not allow.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        if path == "." { error.into_inner().to_string() } else { error.to_string() }
    })?;
    deserializer.end().map_err(|error| error.to_string())?;
    Ok(value)
}
