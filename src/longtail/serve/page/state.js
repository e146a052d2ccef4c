// What the parts of the page share.

export const state = {
  labels: [],          // of the last answer, best first
  asked: [],           // labels that the user asked about or added, with their scores
  knownWords: null,    // number of words of the tagged text that the model knows
  taggedText: "",      // the text that the labels belong to
  threshold: null,     // null: show all
  low: 0,              // range of the slider when scores are not probabilities
  high: 1,
  calibrated: false,
  current: null,       // label whose words are marked
  explanations: new Map(),
  hasFeedback: false,
  hasVocabulary: false,
  below: "",           // only labels below this one
  language: "",        // of the names; "": the service's own
  version: null,       // of the model that proposed the labels
};

/** What to call a label: its name in the vocabulary, if the model has one. */
export const nameOf = (label) => label.name ?? label.label;

export const valueOf = (label) => (state.calibrated ? label.proba : label.score);

export function formatValue(value) {
  if (value === null || value === undefined) return "";
  return state.calibrated ? `${(100 * value).toFixed(1)} %` : value.toFixed(3);
}
