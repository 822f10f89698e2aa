//! Messages and their content blocks (PROTOCOL §2.2, §6.3, §14).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The system prompt.
    System,
    /// The person, a tool result, or anything else that is not the model.
    User,
    /// The model.
    Assistant,
}

/// One message of an `llm_call`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: Content,
}

impl Message {
    /// A message of plain text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self { role, content: Content::Text(text.into()) }
    }

    /// A message of blocks.
    pub fn blocks(role: Role, blocks: Vec<Block>) -> Self {
        Self { role, content: Content::Blocks(blocks) }
    }
}

/// Text, or a list of blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A plain string.
    Text(String),
    /// Typed blocks in order.
    Blocks(Vec<Block>),
}

impl Content {
    /// The text of a string, or of the text blocks joined with `separator`.
    pub fn to_text(&self, separator: &str) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Blocks(blocks) => {
                let texts: Vec<&str> = blocks
                    .iter()
                    .filter_map(|block| match block {
                        Block::Text { text } => Some(text.as_str()),
                        _ => None,
                    })
                    .collect();
                texts.join(separator)
            }
        }
    }
}

/// One block. Unknown kinds and unknown fields are an error: the host refuses them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Block {
    /// Plain text.
    Text {
        /// At most 200,000 UTF-16 units.
        text: String,
    },
    /// The model asks for a tool.
    ToolUse {
        /// Ties the result to the call.
        id: String,
        /// The tool's name.
        name: String,
        /// The arguments.
        input: Value,
    },
    /// What the tool answered.
    ToolResult {
        /// The id of the call.
        tool_use_id: String,
        /// At most 250,000 UTF-16 units.
        content: String,
    },
    /// A stored image.
    #[serde(rename_all = "camelCase")]
    Image {
        /// The host's reference.
        file_id: String,
        /// `image/png`, `image/jpeg`, `image/gif` or `image/webp`.
        mime_type: String,
    },
    /// An inline image.
    #[serde(rename_all = "camelCase")]
    ImageData {
        /// Base64.
        data: String,
        /// As for [`Block::Image`].
        mime_type: String,
    },
    /// A stored file.
    #[serde(rename_all = "camelCase")]
    File {
        /// The host's reference.
        file_id: String,
        /// Any type.
        mime_type: String,
        /// The name the user gave it.
        filename: String,
    },
    /// An inline file.
    #[serde(rename_all = "camelCase")]
    FileData {
        /// Base64.
        data: String,
        /// Any type.
        mime_type: String,
        /// The name the user gave it.
        filename: String,
    },
}
