"""Other people's machines: a stage as one notebook that runs on Kaggle or Colab, and what comes back."""
