//! What a record has of a request, asked for once more.

use crate::workflow::types::{
    AnalysisRequest, AnalysisSettings, JobCreateParams, JobSettings, SystemBuildRequest,
    SystemSettings, builder,
};
use crate::{Field, InvalidRequest};

macro_rules! again {
    ($settings:ident => $request:ident) => {
        /// The request again. A setting of a later version, which this one cannot ask for, is
        /// refused with its name rather than left out.
        impl TryFrom<&$settings> for $request {
            type Error = InvalidRequest;

            fn try_from(settings: &$settings) -> Result<Self, InvalidRequest> {
                crate::from_json(&serde_json::to_string(settings).expect("read from JSON"))
            }
        }

        impl Field<builder::$request> for $settings {
            fn into_field(self) -> Result<builder::$request, InvalidRequest> {
                $request::try_from(&self).map(Into::into)
            }
        }
    };
}

again!(SystemSettings => SystemBuildRequest);
again!(JobSettings => JobCreateParams);
again!(AnalysisSettings => AnalysisRequest);
