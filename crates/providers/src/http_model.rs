//! What the models of all wires have in common.

/// Makes a type with an endpoint and a dialect the model of a wire. Its method `send` sends requests.
macro_rules! http_model {
    ($name:ident, $dialect:path, $defaults:expr) => {
        impl $name {
            /// Creates a model at an endpoint. Nothing is sent yet.
            ///
            /// # Errors
            /// When the endpoint's address, key, headers or extra fields cannot be used, or there is
            /// no TLS on this machine.
            pub fn new(
                endpoint: crate::endpoint::Endpoint,
                http: &crate::http::HttpClient,
            ) -> Result<Self, crate::endpoint::EndpointError> {
                let dialect = $dialect(&endpoint)?;
                let remote = crate::http::RemoteModel::new(endpoint, http, &$defaults)?;
                Ok(Self { remote, dialect })
            }
        }

        impl deputize_core::Model for $name {
            fn reply<'a>(
                &'a self,
                request: &'a Request<'a>,
                live: &'a mut (dyn FnMut(Delta<'_>) + Send),
                cancel: &'a Cancel,
            ) -> BoxFuture<'a, Result<Reply, ModelError>> {
                self.send(request, live, cancel)
            }

            fn most_output(&self, options: &deputize_core::model::ModelOptions) -> Option<u32> {
                request::most_output(options, &self.dialect)
            }

            fn takes_tokens(&self) -> bool {
                true
            }

            fn sees_images(&self, model: &str) -> bool {
                self.dialect.vision.sees_images(model)
            }

            #[cfg(feature = "tokenizer")]
            fn count_tokens(&self, model: &str, text: &str) -> Option<u64> {
                crate::count_tokens(self.remote.provider(), model, text)
            }

            fn for_one_agent(&self) -> Option<std::sync::Arc<dyn deputize_core::Model>> {
                let remote = self.remote.for_one_agent()?;
                let dialect = self.dialect.clone();
                Some(std::sync::Arc::new(Self { remote, dialect }))
            }
        }
    };
}
pub(crate) use http_model;
