//! Leaves out what one model cannot read of a conversation with another.

use std::borrow::Cow;
use std::sync::Arc;

use deputize_core::Message;
use deputize_core::message::AssistantMessage;

/// Returns the conversation without the blocks that only another model can read.
pub(crate) fn readable_by<'m>(
    messages: &'m [Arc<Message>],
    model: &str,
) -> Cow<'m, [Arc<Message>]> {
    let foreign = |message: &Message| match message {
        Message::Assistant(said) => {
            said.opaque.iter().any(|block| !block.model.is_empty() && block.model != model)
        }
        Message::User(_) | Message::Tool(_) => false,
    };
    if !messages.iter().any(|message| foreign(message)) {
        return Cow::Borrowed(messages);
    }
    let readable = |message: &Arc<Message>| match &**message {
        Message::Assistant(said) if foreign(message) => {
            let own = said.opaque.iter().filter(|block| block.model == model);
            let said = AssistantMessage { opaque: own.cloned().collect(), ..said.clone() };
            Arc::new(Message::Assistant(said))
        }
        _ => Arc::clone(message),
    };
    messages.iter().map(readable).collect()
}
