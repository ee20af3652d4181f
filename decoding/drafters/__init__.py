"""What proposes tokens: a model, a look back into the text, or anything else that drafts."""
from decoding.drafters.interface import Drafter, Silent, propose
from decoding.drafters.lookup import LookupDrafter
from decoding.drafters.model import ModelDrafter
from decoding.drafters.synthetic import SyntheticDrafter

__all__ = ["Drafter", "LookupDrafter", "ModelDrafter", "Silent", "SyntheticDrafter",
           "propose"]
