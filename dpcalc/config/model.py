"""What every section of the config file is."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A section: nothing unknown, nothing converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
