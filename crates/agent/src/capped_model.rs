//! A model whose provider allows less output than an agent may ask for.

use std::sync::Arc;

use deputize_core::model::{Delta, ModelError, ModelOptions, Reply, Request};
use deputize_core::{BoxFuture, Cancel, Model};

/// Asks a model for at most so many tokens of one answer. An agent's options are made for its
/// own model; when another one serves, as a child's or to fall back on, its limit holds too.
struct CappedModel {
    model: Arc<dyn Model>,
    most: u32,
}

/// Returns a model that is asked for at most so many tokens of one answer; `None` sets no limit.
#[must_use]
pub fn cap_output(model: Arc<dyn Model>, most: Option<u32>) -> Arc<dyn Model> {
    match most {
        None => model,
        Some(most) => Arc::new(CappedModel { model, most }),
    }
}

/// Returns options with at most so many tokens of one answer.
#[must_use]
pub fn cap_options(options: &ModelOptions, most: u32) -> ModelOptions {
    let asked = options.max_output_tokens.map_or(most, |asked| asked.min(most));
    ModelOptions { max_output_tokens: Some(asked), ..options.clone() }
}

impl Model for CappedModel {
    fn reply<'a>(
        &'a self,
        request: &'a Request<'a>,
        live: &'a mut (dyn FnMut(Delta<'_>) + Send),
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Reply, ModelError>> {
        let options = cap_options(request.options, self.most);
        Box::pin(async move {
            let request = Request { options: &options, ..request.clone() };
            self.model.reply(&request, live, cancel).await
        })
    }

    fn most_output(&self, options: &ModelOptions) -> Option<u32> {
        self.model.most_output(&cap_options(options, self.most))
    }

    fn takes_tokens(&self) -> bool {
        self.model.takes_tokens()
    }

    fn sees_images(&self, model: &str) -> bool {
        self.model.sees_images(model)
    }

    fn count_tokens(&self, model: &str, text: &str) -> Option<u64> {
        self.model.count_tokens(model, text)
    }

    fn for_one_agent(&self) -> Option<Arc<dyn Model>> {
        let model = self.model.for_one_agent()?;
        Some(Arc::new(Self { model, most: self.most }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smaller_limit_holds() {
        let asked = |asked: Option<u32>| {
            let options = ModelOptions { max_output_tokens: asked, ..ModelOptions::default() };
            cap_options(&options, 100).max_output_tokens
        };
        assert_eq!([None, Some(7), Some(700)].map(asked), [Some(100), Some(7), Some(100)]);
    }
}
