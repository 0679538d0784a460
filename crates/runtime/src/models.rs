//! The models of a session, and those to fall back on.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use deputize_core::Model;
use deputize_core::agent::AgentSpec;
use deputize_core::budget::Price;

/// A model and its names.
#[derive(Clone)]
pub(crate) struct ModelRoute {
    /// As agents use it.
    pub(crate) name: String,
    /// As its provider knows it.
    pub(crate) at_provider: String,
    pub(crate) model: Arc<dyn Model>,
    /// Its price, if known.
    pub(crate) price: Option<Price>,
    /// Tokens that fit into its context, if known.
    pub(crate) context_window: Option<u32>,
}

impl ModelRoute {
    pub(crate) fn sees_images(&self) -> bool {
        self.model.sees_images(&self.at_provider)
    }
}

/// Models by the name that agents use, `PROVIDER/MODEL`.
#[derive(Clone, Default)]
pub struct Models {
    routes: BTreeMap<String, ModelRoute>,
    fallback: Vec<String>,
    pinned_fallback: Vec<String>,
}

impl Models {
    /// Adds a model: the name agents use, its name at the provider, the way to it.
    pub fn insert(&mut self, name: &str, at_provider: &str, model: Arc<dyn Model>) {
        let name = name.to_owned();
        let at_provider = at_provider.to_owned();
        let route = ModelRoute {
            name: name.clone(),
            at_provider,
            model,
            price: None,
            context_window: None,
        };
        self.routes.insert(name, route);
    }

    /// Puts something around a model that was added, such as one that answers some requests itself.
    pub fn wrap(&mut self, name: &str, wrap: impl FnOnce(Arc<dyn Model>) -> Arc<dyn Model>) {
        if let Some(route) = self.routes.get_mut(name) {
            route.model = wrap(Arc::clone(&route.model));
        }
    }

    /// Says what a model costs that was added.
    pub fn price(&mut self, name: &str, price: Price) {
        if let Some(route) = self.routes.get_mut(name) {
            route.price = Some(price);
        }
    }

    /// Sets how many tokens fit into the context of a model that was added.
    pub fn context_window(&mut self, name: &str, tokens: u32) {
        if let Some(route) = self.routes.get_mut(name) {
            route.context_window = Some(tokens);
        }
    }

    /// Says which models an agent goes on with, in this order, when its own cannot be used. A
    /// name without a model is passed over.
    pub fn fallback(&mut self, names: Vec<String>) {
        self.fallback = names;
    }

    /// Says the same of agents whose model was named for them
    /// ([`AgentSpec::model_pinned`](deputize_core::agent::AgentSpec::model_pinned)).
    pub fn pinned_fallback(&mut self, names: Vec<String>) {
        self.pinned_fallback = names;
    }

    /// The models that an agent goes on with.
    fn fallback_of(&self, spec: &AgentSpec) -> &[String] {
        if spec.model_pinned { &self.pinned_fallback } else { &self.fallback }
    }

    /// Returns whether an agent may go on with another model of this name at its provider. It
    /// checks the names of fallback models, because a replay has no routes to them.
    pub(crate) fn may_serve(&self, spec: &AgentSpec, other: &str, at_provider: &str) -> bool {
        let known = other == spec.model || self.fallback_of(spec).iter().any(|name| name == other);
        known && self.routes.get(other).is_none_or(|route| route.at_provider == at_provider)
    }

    /// Returns whether the model of this name sees images; `false` if there is none.
    #[must_use]
    pub fn sees_images(&self, name: &str) -> bool {
        self.route(name).is_some_and(ModelRoute::sees_images)
    }

    pub(crate) fn route(&self, name: &str) -> Option<&ModelRoute> {
        self.routes.get(name)
    }

    /// The model of an agent, and after it those to fall back on.
    pub(crate) fn routes(&self, spec: &AgentSpec) -> Option<Vec<ModelRoute>> {
        let own = self.routes.get(&spec.model)?;
        let others = self.fallback_of(spec).iter().filter(|other| **other != spec.model);
        let others = others.filter_map(|other| self.routes.get(other));
        let mut routes: Vec<_> = std::iter::once(own).chain(others).cloned().collect();
        routes.shrink_to_fit();
        Some(routes)
    }
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.routes.keys()).finish()
    }
}
